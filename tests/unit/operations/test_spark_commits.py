"""The commits of Spark's writes, as the process that drives Spark makes them: no session is needed."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as T

import icecore
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import CommitConflictError, NoSuchTableError, ValidationError
from icecore.engine.metadata.write_audit_publish import EPOCH_ID, QUERY_ID
from icecore.engine.spark_source.batch_writer import TableWriter
from icecore.engine.spark_source.foreach_batch import foreach_batch
from icecore.engine.spark_source.source_options import STREAM_WRITING, WRITING, SourceOptions
from icecore.engine.spark_source.stream.stream_writer import StreamTableWriter
from icecore.engine.spark_source.task_files import FilesMessage, TaskFiles

COLUMNS = pa.schema([("id", pa.int64()), ("amount", pa.int64())])
STRUCT = T.StructType([T.StructField("id", T.LongType()), T.StructField("amount", T.LongType())])
ROWS = pa.table({"id": [7], "amount": [100]})


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.t", COLUMNS)


def batch_writer(warehouse: Path, overwrite: bool = False, **options: str) -> TableWriter:
    given = {"warehouse": str(warehouse), "path": "ns.t", **{k.replace("_", "-"): v for k, v in options.items()}}
    return TableWriter(SourceOptions.of(given, WRITING), STRUCT, overwrite)


def stream_writer(warehouse: Path, overwrite: bool = False, **options: str) -> StreamTableWriter:
    given = {"warehouse": str(warehouse), "path": "ns.t", **{k.replace("_", "-"): v for k, v in options.items()}}
    return StreamTableWriter(SourceOptions.of(given, STREAM_WRITING), STRUCT, overwrite)


def written(files: TaskFiles, query_id: str | None = None) -> list[Any]:
    """The messages of two tasks, of which one wrote rows and the other ended without telling."""
    made = write_data_files(
        ROWS,
        schema=files.schema,
        spec=files.spec,
        location=files.location,
        storage=files.storage,
        properties=files.properties,
        file_prefix=str(uuid.uuid4()),
        sort_order=files.sort_order,
    )
    return [FilesMessage(tuple(made), query_id), None]


def there(messages: list[Any]) -> list[bool]:
    return [Path(f.file_path.removeprefix("file://")).exists() for f in messages[0].files]


def ids(table: icecore.Table, ref: str | None = None) -> list[int]:
    return sorted(table.refresh().scan(ref=ref).to_arrow()["id"].to_pylist())


def replaced(catalog: icecore.Catalog) -> icecore.Table:
    """Another table of the same name, whose columns of the same ids are others."""
    catalog.drop_table("ns.t")
    made = catalog.create_table("ns.t", pa.schema([("amount", pa.int64()), ("id", pa.int64())]))
    made.append([{"id": 1, "amount": 1}])
    return made


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_a_dropped_table_go_into_no_other(
    catalog: icecore.Catalog, warehouse: Path, table: icecore.Table, overwrite: bool
) -> None:
    """A table of the same name is refused; then the files are given up and gone, and the new table is as it was."""
    writer = pickle.loads(pickle.dumps(batch_writer(warehouse, overwrite)))
    messages = written(writer._files)
    another = replaced(catalog)
    for given in (messages, [None]):
        with pytest.raises(CommitConflictError, match=r"^ns\.t is another table"):
            writer.commit(given)
    assert there(messages) == [True]
    writer.abort(messages)
    assert there(messages) == [False]
    assert another.refresh().scan().to_arrow().to_pylist() == [{"id": 1, "amount": 1}]


def test_a_stream_ends_where_its_table_is_another(
    catalog: icecore.Catalog, warehouse: Path, table: icecore.Table
) -> None:
    """What it committed before stays done; the next batch is refused, and begun anew it writes to the new table."""
    writer = stream_writer(warehouse)
    writer.commit(written(writer._files, "q"), 0)
    assert ids(table) == [7]
    another = replaced(catalog)
    messages = written(writer._files, "q")
    with pytest.raises(CommitConflictError, match="another table"):
        writer.commit(messages, 1)
    writer.abort(messages, 1)
    assert there(messages) == [False] and ids(another) == [1]
    anew = stream_writer(warehouse)
    anew.commit(written(anew._files, "q"), 1)
    assert sorted(map(tuple, (r.items() for r in another.refresh().scan().to_arrow().to_pylist()))) == [
        (("amount", 1), ("id", 1)),
        (("amount", 100), ("id", 7)),
    ]


def test_a_batch_that_comes_again_has_the_rows_that_it_had(warehouse: Path, table: icecore.Table) -> None:
    """Else its number is of another checkpoint: rows would be lost, and those of later batches doubled."""
    writer = stream_writer(warehouse)
    for _ in range(2):
        writer.commit(written(writer._files, "q"), 0)
    assert ids(table) == [7]
    more = written(writer._files, "q") + written(writer._files, "q")
    with pytest.raises(ValidationError, match=r"batch 0 of the query q was committed with 1 row, .* again with 2"):
        writer.commit(more, 0)
    writer.abort(more, 0)
    assert there(more) == [False] and ids(table) == [7]
    passing = stream_writer(warehouse, skip_committed_batches="true")
    passing.commit(again := written(passing._files, "q") + written(passing._files, "q"), 0)
    assert not any(there(again)) and ids(table) == [7]
    whole = stream_writer(warehouse, overwrite=True)
    whole.commit(written(whole._files, "q") + written(whole._files, "q"), 0)
    assert ids(table) == [7]


@pytest.mark.parametrize("branch", ["main", "audit"])
def test_a_batch_that_had_no_rows_has_none_again(warehouse: Path, table: icecore.Table, branch: str) -> None:
    """Its number made no commit. Beside other queries, branches and sinks, which have numbers of their own."""
    table.append([{"id": 0, "amount": 0}])
    other = "audit" if branch == "main" else "main"

    def commit(batch: int, query: str = "q", into: str = branch, skip: str = "false") -> None:
        writer = stream_writer(warehouse, branch=into, skip_committed_batches=skip)
        messages = written(writer._files, query)
        try:
            writer.commit(messages, batch)
        except ValidationError:
            writer.abort(messages, batch)
            assert there(messages) == [False]
            raise

    commit(8, into=other)
    commit(9, "p")
    commit(0)
    commit(2)
    foreach_batch(table, query="q", sink="another", branch=branch)(ROWS, 2)
    before = ids(table, branch)
    with pytest.raises(ValidationError, match=r"batch 1 of the query q had no rows when batch 2 was .* with 1:"):
        commit(1)
    stream_writer(warehouse, branch=branch, query_id="q").commit([None], 1)
    assert ids(table, branch) == before
    commit(1, skip="true")
    commit(3)
    assert ids(table, branch) == [*before, 7, 7]


def test_a_batch_whose_commit_was_rolled_back_is_refused(warehouse: Path, table: icecore.Table) -> None:
    """It comes again by a checkpoint from before, and would be passed over by its key."""
    table.append([{"id": 1}])
    before = table.current_snapshot()
    assert before is not None
    for overwrite in (False, True):
        writer = stream_writer(warehouse, overwrite=overwrite)
        writer.commit(written(writer._files, f"q{overwrite}"), 0)
        table.refresh().manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
        again = written(writer._files, f"q{overwrite}")
        with pytest.raises(
            ValidationError, match=rf"batch 0 of the query q{overwrite} was committed .* does not stand on"
        ):
            writer.commit(again, 0)
        writer.abort(again, 0)
        assert there(again) == [False]


def test_files_of_a_table_that_is_gone_are_given_up(
    catalog: icecore.Catalog, warehouse: Path, table: icecore.Table
) -> None:
    """Those that a commit has stay, for the table may be brought back."""
    writer = batch_writer(warehouse)
    made, lost = written(writer._files), written(batch_writer(warehouse)._files)
    writer.commit(made)
    other = batch_writer(warehouse)
    catalog.drop_table("ns.t")
    with pytest.raises(NoSuchTableError):
        other.commit(lost)
    for giving_up, messages in ((other, lost), (writer, made)):
        giving_up.abort(messages)
    assert there(lost) == [False] and there(made) == [True]


def appended(transaction: Any, rows: Any) -> None:
    transaction.append(rows)


def test_each_sink_of_a_query_commits_its_batches(table: icecore.Table) -> None:
    """Branches of one table, and sinks that are named, are committed each once, also where the batch comes again."""
    table.append([{"id": 0, "amount": 0}])
    sinks = [
        foreach_batch(table, query="q"),
        foreach_batch(table, query="q", branch="audit"),
        foreach_batch(table, appended, query="q", sink="rows"),
        foreach_batch(table, appended, query="q", sink="the same rows"),
        foreach_batch(table, query="q", branch="audit", sink="rows"),
        # Whose text is that of other sinks' parts, put together otherwise.
        foreach_batch(table, query="q 7", sink="rows"),
    ]
    for _ in range(2):
        for sink in sinks:
            sink(ROWS, 7)
    assert ids(table) == [0, 7, 7, 7, 7]
    assert ids(table, "audit") == [0, 7, 7, 7]


def test_streams_of_one_name_into_two_branches(warehouse: Path, table: icecore.Table) -> None:
    table.append([{"id": 0, "amount": 0}])
    for _ in range(2):
        for branch in ("main", "audit"):
            writer = stream_writer(warehouse, branch=branch, query_id="nightly")
            writer.commit(written(writer._files), 0)
    assert ids(table) == [0, 7]
    assert ids(table, "audit") == [0, 7, 7]


def test_batches_keep_their_keys(warehouse: Path, table: icecore.Table) -> None:
    """A key that an earlier version gave to a batch of main and of no named sink is known by later ones."""
    of_table = table.metadata.table_uuid
    table.append(ROWS, idempotency_key=f"foreachBatch {of_table} q 3")
    table.append(ROWS, idempotency_key=f"writeStream {of_table} q 3")
    foreach_batch(table, query="q")(ROWS, 3)
    foreach_batch(table, appended, query="q")(ROWS, 3)
    writer = stream_writer(warehouse)
    writer.commit(written(writer._files, "q"), 3)
    assert ids(table) == [7, 7]


def test_a_dynamic_overwrite_is_of_the_partitions_that_tasks_wrote(
    catalog: icecore.Catalog, warehouse: Path, table: icecore.Table
) -> None:
    """The spec that the table has by the commit may be another one."""
    with table.update_spec() as update:
        update.add_field("id")
    table.append([{"id": 7, "amount": 1}, {"id": 100, "amount": 7}])
    writer = batch_writer(warehouse, overwrite=True, overwrite_mode="dynamic")
    messages = written(writer._files)
    with table.update_spec() as update:
        update.remove_field("id")
        update.add_field("amount")
    table.append([{"id": 7, "amount": 2}, {"id": 8, "amount": 7}])
    writer.commit(messages)
    found = table.refresh().scan().to_arrow().to_pylist()
    assert sorted((r["id"], r["amount"]) for r in found) == [(7, 100), (8, 7), (100, 7)]


def test_one_batch_of_a_stream_is_staged_under_an_id(warehouse: Path, table: icecore.Table) -> None:
    """An id is published once, so of a second batch there would be nothing to publish; the same one may come again."""
    table.set_properties({"write.wap.enabled": "true"})
    writer = stream_writer(warehouse, snapshot_properties='{"wap.id": "load-1"}')
    for _ in range(2):
        writer.commit(written(writer._files, "q"), 0)
    messages = written(writer._files, "q")
    with pytest.raises(ValidationError, match=r"staged batch 0 under wap\.id 'load-1', under which no other"):
        writer.commit(messages, 1)
    assert there(messages) == [False]
    other = stream_writer(warehouse, query_id="other", snapshot_properties='{"wap.id": "load-2"}')
    other.commit(written(other._files), 1)
    foreach_batch(table, query="each", snapshot_properties={"wap.id": "load-3"})(ROWS, 0)
    with pytest.raises(ValidationError, match="staged batch 0"):
        foreach_batch(table, query="each", snapshot_properties={"wap.id": "load-3"})(ROWS, 1)
    assert ids(table) == []
    for wap_id in ("load-1", "load-2", "load-3"):
        table.manage_snapshots().publish(wap_id).commit()
    assert ids(table) == [7, 7, 7]


def test_columns_that_a_stream_brings_are_taken_in_once(warehouse: Path, table: icecore.Table) -> None:
    """A batch that comes again and columns of others do no harm; where its own are others now a batch is refused."""
    table.update_schema().delete_column("amount").commit()
    writer = stream_writer(warehouse, merge_schema="true")
    for _ in range(2):
        writer.commit(written(writer._files, "q"), 0)
    table.update_schema().add_column("more", "string").commit()
    writer.commit(written(writer._files, "q"), 1)
    assert table.refresh().scan().to_arrow().to_pylist() == [{"id": 7, "amount": 100, "more": None}] * 2
    table.update_schema().rename_column("amount", "sum").commit()
    messages, schemas = written(writer._files, "q"), len(table.refresh().metadata.schemas)
    with pytest.raises(CommitConflictError, match="columns changed since 'amount' was written"):
        writer.commit(messages, 2)
    writer.abort(messages, 2)
    assert (there(messages), len(table.refresh().metadata.schemas)) == ([False], schemas)
    again = stream_writer(warehouse, merge_schema="true")
    again.commit(written(again._files, "q"), 2)
    found = table.refresh().scan().to_arrow()
    assert (found["sum"].to_pylist().count(100), found["amount"].to_pylist().count(100)) == (2, 1)


def test_a_batch_is_refused_where_a_column_took_the_name_of_one_of_its_own(
    warehouse: Path, table: icecore.Table
) -> None:
    writer = stream_writer(warehouse)
    messages = written(writer._files, "q")
    table.update_schema().delete_column("amount").commit()
    table.update_schema().add_column("amount", "int").commit()
    with pytest.raises(CommitConflictError, match="columns changed since 'amount' was written"):
        writer.commit(messages, 0)
    writer.abort(messages, 0)
    assert there(messages) == [False]


def staging(wap_id: str) -> Any:
    """A function of a stream that deletes and appends, staged under an id."""

    def change(transaction: Any, rows: Any) -> None:
        transaction.overwrite(rows, "id = 7", snapshot_properties={"wap.id": wap_id})

    return change


def test_one_batch_of_a_stream_that_changes_the_table_is_staged_under_an_id(table: icecore.Table) -> None:
    """As of one that appends; the snapshots that its function makes tell which batch they are of."""
    table.set_properties({"write.wap.enabled": "true"})
    table.append(ROWS)
    for _ in range(2):
        foreach_batch(table, staging("load-1"), query="q")(ROWS, 0)
    before = sorted(Path(table.location().removeprefix("file://")).rglob("*.parquet"))
    with pytest.raises(ValidationError, match=r"staged batch 0 under wap\.id 'load-1', under which no other"):
        foreach_batch(table, staging("load-1"), query="q")(ROWS, 1)
    assert sorted(Path(table.location().removeprefix("file://")).rglob("*.parquet")) == before
    foreach_batch(table, staging("load-2"), query="q")(ROWS, 1)
    told = [(s.summary or {}) for s in table.refresh().snapshots()[1:]]
    assert [(s["wap.id"], s[QUERY_ID], s[EPOCH_ID]) for s in told] == [("load-1", "q", "0"), ("load-2", "q", "1")]
