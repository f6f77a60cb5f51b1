"""A filter said in Spark reads the files that a scan with that filter plans, and never fewer."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.spark.relation.file_pruning import FilePruning  # noqa: E402

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("score", pa.float64()),
        ("flag", pa.bool_()),
        ("st", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ("raw", pa.binary()),
        ("n", pa.int32()),
    ]
)
FILES = 6


def rows(k: int) -> list[dict[str, Any]]:
    """The rows of a file: its own range of every column; the last two have nulls and NaN among them."""
    start = dt.datetime(2024, 1, 1) + dt.timedelta(days=k)
    out: list[dict[str, Any]] = [
        {
            "id": k * 10 + i,
            "city": f"c{k}-{i}",
            "day": start.date(),
            "at": (start + dt.timedelta(hours=i)).replace(tzinfo=dt.UTC),
            "local": start + dt.timedelta(hours=i),
            "price": Decimal(k * 10 + i) + Decimal("0.25"),
            "score": k * 10.0 + i,
            "flag": k % 2 == 0,
            "st": {"x": k * 10 + i, "y": f"y{k}"},
            "raw": bytes([k, i]),
            "n": k * 10 + i,
        }
        for i in range(4)
    ]
    if k == FILES - 2:
        out[0] |= dict.fromkeys(SCHEMA.names[1:])
    if k == FILES - 1:
        out[0]["score"] = float("nan")
    return out


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Table]:
    with icecore.open(tmp_path_factory.mktemp("pruning") / "lake", actor="test") as catalog:
        catalog.create_namespace("n")
        made = catalog.create_table("n.t", SCHEMA)
        for k in range(FILES):
            made.append(pa.Table.from_pylist(rows(k), SCHEMA))
        made.update_schema().rename_column("city", "town").update_column("n", "long").commit()
        made.append([{"id": 999, "town": "z", "n": 2**40}])
        yield made


FILTERS = [
    # What Spark is told, what icecore is told (None: the same), and how many of the seven files are read.
    ("id BETWEEN 12 AND 21", None, 2),
    ("id = 12 OR id = 33", None, 2),
    ("id IN (1, 53, 777)", None, 2),
    ("id IN (0,1,2,3,4,5,6,7,8,9,10,11,12,13,14)", None, 2),
    ("NOT (id > 20 OR id < 10)", None, 2),
    ("NOT (id > 20 AND length(town) > 1)", "TRUE", 7),
    ("id > 20 AND length(town) > 1", "id > 20", 5),
    ("id <=> 12", "id = 12", 1),
    ("NOT (id <=> 12)", "TRUE", 7),
    ("town = 'c3-1'", None, 1),
    ("town LIKE 'c3%'", None, 1),
    ("town LIKE 'c3%' AND NOT (town LIKE 'c3-2%')", None, 1),
    ("town >= 'c4' AND town < 'd'", None, 2),
    ("town IS NULL", None, 1),
    ("day = DATE '2024-01-03'", None, 1),
    ("day > '2024-01-05'", "day > DATE '2024-01-05'", 1),
    ("at >= TIMESTAMP '2024-01-02 02:00:00Z' AND at < TIMESTAMP '2024-01-03 00:00:00Z'",
     "at >= TIMESTAMPTZ '2024-01-02 02:00:00Z' AND at < TIMESTAMPTZ '2024-01-03 00:00:00Z'", 1),
    ("at < TIMESTAMP '2024-01-02 00:00:00'", "at < TIMESTAMPTZ '2024-01-02 00:00:00Z'", 1),
    ("local = TIMESTAMP_NTZ '2024-01-03 01:00:00'", "local = TIMESTAMP '2024-01-03 01:00:00'", 1),
    ("price = 31.25", None, 1),
    ("price > 40", "price > 40.00", 2),
    ("score > 1000", None, 1),
    ("score = DOUBLE('NaN')", "isnan(score)", 1),
    ("isnan(score)", None, 1),
    ("score < 11", None, 2),
    ("flag", None, 3),
    ("NOT flag", None, 3),
    ("st.x = 12", None, 1),
    ("st.y = 'y2' AND st.x > 0", None, 1),
    ("st IS NULL", None, 7),
    ("raw = X'0301'", None, 1),
    ("n > 3000000000", None, 1),
    ("n = 12", None, 1),
    ("element_at(array(id, 100 - n), 2) = 79", "TRUE", 7),
    ("element_at(array(id, n - 1), -1) = 20", "TRUE", 7),
    ("id * 2 = 24", "TRUE", 7),
    ("id = 12 OR id * 2 = 24", "TRUE", 7),
]  # fmt: skip


LOS_ANGELES = {
    "at < TIMESTAMP '2024-01-02 00:00:00'": ("at < TIMESTAMPTZ '2024-01-02 08:00:00Z'", 2),
}
"""What is another filter there."""


# A session's zone is of filters on times alone.
@pytest.mark.parametrize(
    ("zone", "filters"),
    [
        ("UTC", FILTERS),
        (
            "America/Los_Angeles",
            [(f[0], *LOS_ANGELES.get(f[0], f[1:])) for f in FILTERS if re.match("day|at|local", f[0])],
        ),
    ],
    ids=["UTC", "America/Los_Angeles"],
)
def test_a_filter_in_spark_reads_what_a_scan_with_it_plans(
    spark: Any,
    table: icecore.Table,
    monkeypatch: pytest.MonkeyPatch,
    zone: str,
    filters: list[tuple[str, str | None, int]],
) -> None:
    answers: list[str] = []
    apply = FilePruning.apply

    def heard(self: FilePruning, text: str) -> str:
        answers.append(apply(self, text))
        return answers[-1]

    monkeypatch.setattr(FilePruning, "apply", heard)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = table.scan().to_spark(spark)
        # The conditions of rows that were read already choose no file.
        everything = frame.localCheckpoint().selectExpr(
            "id", *(f"{text} AS c{i}" for i, (text, *_) in enumerate(filters))
        )
        shown = everything.collect()
        wrong = []
        for i, (text, ours, count) in enumerate(filters):
            answers.clear()
            found = sorted(r.id for r in frame.where(text).select("id").collect())
            assert found == sorted(r.id for r in shown if r[f"c{i}"]), text
            read = min((a.count("1") for a in answers if a), default=FILES + 1)
            if not read == count == len(table.scan(ours or text).plan_files()):
                wrong.append((text, read, count, len(table.scan(ours or text).plan_files())))
        assert not wrong
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_without_an_answer_all_files_are_read(
    spark: Any, table: icecore.Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whether Python fails, says what makes no sense, or the catalog is closed meanwhile."""

    def fail(self: Any, text: str) -> str:
        raise RuntimeError("no answer")

    for apply in (fail, lambda self, text: "0", lambda self, text: 5, lambda self, text: None):
        with monkeypatch.context() as m:
            m.setattr(FilePruning, "apply", apply)
            frame = table.scan().to_spark(spark)
            assert [r.id for r in frame.where("id = 12").collect()] == [12]
    with icecore.open(tmp_path / "lake", actor="test") as catalog:
        catalog.create_namespace("n")
        other = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
        other.append([{"id": 1}])
        other.append([{"id": 2}])
        frame = other.scan().to_spark(spark)
    assert [r.id for r in frame.where("id = 2").collect()] == [2]
    assert not catalog._warehouse.planning.planner.is_open()


def test_a_planner_without_an_answer_is_asked_once(
    spark: Any, table: icecore.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it may be waited for until its time is up."""
    asked: list[str] = []

    def fail(self: Any, text: str) -> str:
        asked.append(text)
        raise RuntimeError("no answer")

    monkeypatch.setattr(FilePruning, "apply", fail)
    frame = table.scan().to_spark(spark)
    for _ in range(3):
        assert [r.id for r in frame.where("id = 12").collect()] == [12]
    assert len(asked) == 1


def test_a_query_that_is_interrupted_as_it_asks_ends_and_the_next_one_asks_again(
    spark: Any, table: icecore.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a stream is stopped: its thread must hear of it."""
    asked, apply, threads = [], FilePruning.apply, spark._jvm.java.lang.Thread

    def waits(thread: Any) -> bool:
        return any("icecore.FilePruning.answer" in f"{call}" for call in thread.getStackTrace())

    def interrupting(self: FilePruning, text: str) -> str:
        """The answer; the first one when nobody waits for it any more."""
        asked.append(text)
        for thread in threads.getAllStackTraces().keySet() if len(asked) == 1 else ():
            if waits(thread):
                thread.interrupt()
                while waits(thread):
                    time.sleep(0.01)
        return apply(self, text)

    monkeypatch.setattr(FilePruning, "apply", interrupting)
    frame = table.scan().to_spark(spark)
    with pytest.raises(Exception, match="InterruptedException"):
        frame.where("id = 12").collect()
    assert [r.id for r in frame.where("id = 12").collect()] == [12]
    assert len(asked) == 2 and asked[0] == asked[1]


def test_scans_with_filters_and_of_appends_are_pruned_further(spark: Any, table: icecore.Table) -> None:
    first = table.snapshots()[0].snapshot_id
    for scan in (table.scan("id >= 10"), table.incremental_append_scan(from_snapshot_id_exclusive=first)):
        frame = scan.to_spark(spark)
        assert sorted(r.id for r in frame.where("id < 22").collect()) == [10, 11, 12, 13, 20, 21]
        assert frame.where("id < 10").count() == 0


def test_files_that_are_gone_are_never_passed_over(spark: Any, catalog: icecore.Catalog) -> None:
    """Unless a query needs none of them, here by partitions of which no metrics are kept; whatever the session says."""
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    no_metrics = {"write.metadata.metrics.default": "none"}
    table = catalog.create_table("ns.t", schema, partition_spec=["city"], properties=no_metrics)
    for i, city in enumerate("ab"):
        table.append([{"id": i, "city": city}])
    frame = table.scan().to_spark(spark)
    table.delete("city = 'a'")
    for t in table.scan(snapshot_id=table.snapshots()[0].snapshot_id).plan_files():
        Path(t.file.file_path.removeprefix("file://")).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert [r.id for r in frame.where("city = 'b'").collect()] == [1]
        with pytest.raises(Exception, match="is gone, as after its snapshot expired"):
            frame.collect()
    finally:
        spark.conf.set("spark.sql.files.ignoreMissingFiles", "false")
