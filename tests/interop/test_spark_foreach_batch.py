"""Micro-batches of Spark's streams are committed exactly once, however often Spark runs them."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from clean_processes import exit_codes_of

import icecore
from icecore.engine.errors import ReusedKeyError, ValidationError
from icecore.engine.metadata.write_audit_publish import EPOCH_ID, QUERY_ID
from icecore.engine.repository.repository import Repository

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))


def ids_of(table: icecore.Table) -> list[int]:
    table.refresh()
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def write_json(folder: Path, number: int, *ids: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.json").write_text("\n".join(json.dumps({"id": i}) for i in ids))


def run(spark: Any, folder: Path, commits: Any) -> Any:
    """Runs a query over the files of a folder, one a batch, until there is none left."""
    stream = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", "1").json(str(folder / "in"))
    writer = stream.writeStream.foreachBatch(commits).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.spark
def test_a_stream_that_is_stopped_and_goes_on(
    spark: Any, table: icecore.Table, catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """A batch that was committed here and not by Spark comes again, and is known by the query's id."""
    commits = icecore.spark.foreach_batch(table, message="events", author="stream", snapshot_properties={"a": "b"})
    write_json(tmp_path / "in", 0, 1, 2)
    query = run(spark, tmp_path, commits)
    assert ids_of(table) == [1, 2]
    write_json(tmp_path / "in", 1, 3)

    def dies_after(rows: Any, batch_id: int) -> None:
        commits(rows, batch_id)
        raise KeyError("as if the driver had gone")

    with pytest.raises(Exception, match="as if the driver had gone"):
        run(spark, tmp_path, dies_after)
    assert ids_of(table) == [1, 2, 3]
    write_json(tmp_path / "in", 2, 4)
    run(spark, tmp_path, commits)
    assert ids_of(table) == [1, 2, 3, 4]
    summaries = [s.summary or {} for s in table.snapshots()]
    assert [s[EPOCH_ID] for s in summaries] == ["0", "1", "2"]
    assert {(s[QUERY_ID], s["a"]) for s in summaries} == {(query.id, "b")}
    assert {r["actor"] for r in catalog.log("ns.t").to_pylist() if r["message"] == "events"} == {"stream"}


def doubled(transaction: Any, rows: Any) -> None:
    transaction.append(rows)
    transaction.append(rows)


@pytest.mark.spark
def test_a_batch_that_comes_again_has_the_rows_that_it_had(spark: Any, table: icecore.Table) -> None:
    """Else its number is of another checkpoint."""
    commits = icecore.spark.foreach_batch(table, query="q")
    for _ in range(2):
        commits(spark.range(2), 0)
    with pytest.raises(ValidationError, match="batch 0 of the query q was committed with 2 rows"):
        commits(spark.range(3), 0)
    icecore.spark.foreach_batch(table, query="q", skip_committed=True)(spark.range(3), 0)
    assert ids_of(table) == [0, 1]


def test_a_batch_is_one_commit_whatever_it_changes(table: icecore.Table) -> None:
    """The function goes through pickle; other queries, batches and tables have keys of their own."""
    commits = pickle.loads(pickle.dumps(icecore.spark.foreach_batch(table, doubled, query="q")))
    commits(ROWS, 0)
    commits(ROWS, 0)
    assert ids_of(table) == [1, 1, 2, 2]
    icecore.spark.foreach_batch(table, query="other")(ROWS, 0)
    icecore.spark.foreach_batch(table, query="q", branch="dev")(ROWS, 1)
    assert ids_of(table) == [1, 1, 1, 2, 2, 2]
    assert table.scan(ref="dev").count() == 8
    with pytest.raises(ValidationError, match="query=NAME"):
        icecore.spark.foreach_batch(table)(ROWS, 0)


def test_a_batch_whose_commit_was_rolled_back_is_not_passed_over(table: icecore.Table) -> None:
    """By a checkpoint from before it comes again for its rows, which another name of the query commits."""
    append, change = (
        icecore.spark.foreach_batch(table, query="q"),
        icecore.spark.foreach_batch(table, doubled, query="c"),
    )
    append(ROWS, 0)
    kept = table.refresh().current_snapshot()
    assert kept is not None
    append(ROWS, 1)
    change(ROWS, 1)
    table.refresh().manage_snapshots().rollback_to_snapshot(kept.snapshot_id).commit()
    append(ROWS, 0)
    for commits, query in ((append, "q"), (change, "c")):
        with pytest.raises(ValidationError, match=f"batch 1 of the query {query} was .* 'main' does not stand on"):
            commits(ROWS, 1)
    icecore.spark.foreach_batch(table, doubled, query="c", skip_committed=True)(ROWS, 1)
    assert ids_of(table) == [1, 2]
    icecore.spark.foreach_batch(table, query="again")(ROWS, 1)
    assert ids_of(table) == [1, 1, 2, 2]


def test_a_batch_whose_snapshot_was_expired_is_passed_over(table: icecore.Table) -> None:
    """Its rows are in the table as those of the snapshots after it; so are those of a branch that was published."""
    on_main = icecore.spark.foreach_batch(table, query="q")
    on_dev = icecore.spark.foreach_batch(table, query="q", branch="dev")
    on_main(ROWS, 0)
    on_dev(ROWS, 1)
    table.refresh().manage_snapshots().fast_forward("main", "dev").remove_branch("dev").commit()
    on_main(ROWS, 2)
    old = [s.snapshot_id for s in table.refresh().snapshots()[:-1]]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    on_main(ROWS, 0)
    on_dev(ROWS, 1)
    assert ids_of(table) == [1, 1, 1, 2, 2, 2]


def test_a_batch_whose_commit_was_cherry_picked_is_passed_over(table: icecore.Table) -> None:
    """Its rows are there, and under another name of the query they would come a second time."""
    table.append(ROWS)
    on_dev = icecore.spark.foreach_batch(table, query="q", branch="dev")
    on_dev(ROWS, 0)
    source = table.refresh().metadata.refs["dev"].snapshot_id
    table.append(ROWS)
    table.manage_snapshots().cherry_pick(source).commit()
    published = table.refresh().current_snapshot()
    assert published is not None and published.snapshot_id != source
    table.manage_snapshots().replace_branch("dev", published.snapshot_id).commit()
    position = table.refresh().state.position
    on_dev(ROWS, 0)
    assert table.refresh().state.position == position


def test_a_batch_of_a_table_that_was_registered_anew_is_refused_by_its_key(table: icecore.Table) -> None:
    """Whatever it holds: the commit is one of the table that was dropped, and to pass over it would say otherwise."""
    append, older = icecore.spark.foreach_batch(table, query="q"), table.metadata_location
    assert older is not None
    append(ROWS, 0)
    with icecore.open(append.warehouse) as catalog:
        catalog.drop_table("ns.t")
        catalog.register_table("ns.t", older)
    with pytest.raises(ReusedKeyError):
        append(ROWS, 0)


def test_a_tag_is_not_the_branch_that_it_has_the_name_of(table: icecore.Table) -> None:
    table.append(ROWS)
    first = table.refresh().current_snapshot()
    assert first is not None
    on_dev = icecore.spark.foreach_batch(table, query="q", branch="dev")
    on_dev(ROWS, 0)
    table.refresh().manage_snapshots().fast_forward("main", "dev").remove_branch("dev").commit()
    table.refresh().manage_snapshots().create_tag(first.snapshot_id, "dev").commit()
    on_dev(ROWS, 0)
    assert ids_of(table) == [1, 1, 2, 2]


def test_a_batch_that_another_process_commits_meanwhile_is_passed_over(
    table: icecore.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came after the look at the table, and before the one for the key."""
    append, already = icecore.spark.foreach_batch(table, query="q"), Repository.already

    def later(repository: Repository, provenance: Any) -> Any:
        monkeypatch.setattr(Repository, "already", already)
        append(ROWS, 0)
        return already(repository, provenance)

    monkeypatch.setattr(Repository, "already", later)
    append(ROWS, 0)
    assert ids_of(table) == [1, 2]


def dying_at(commits: Any, steps: int) -> Callable[[], None]:
    """What another process does: it makes the batch's commit, and dies at a step of it that touches the warehouse."""
    warehouse, left = commits.warehouse, steps
    kinds = ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect", "os.listdir", "os.scandir")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in kinds and any(isinstance(a, (str, bytes)) and warehouse in os.fsdecode(a) for a in arguments):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        sys.addaudithook(hook)
        pickle.loads(pickle.dumps(commits))(ROWS, 7)

    return work


def test_a_batch_that_is_killed_at_any_step(table: icecore.Table) -> None:
    """Run again in another process, it is there once, whether the first one got to its commit or not."""
    count = 0
    for step in range(1, 200, 3):
        commits = icecore.spark.foreach_batch(table, query=f"killed at {step}")
        (code,) = exit_codes_of(dying_at(commits, step))
        assert code in (0, -signal.SIGKILL)
        commits(ROWS, 7)
        commits(ROWS, 7)
        count += 1
        assert ids_of(table) == sorted([1, 2] * count)
        if code == 0:
            break
    assert code == 0
    assert count > 5
