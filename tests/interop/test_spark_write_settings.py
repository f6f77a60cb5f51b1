"""What a session's settings are has no say in what Spark writes: a table comes out as the one written through Arrow."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("x", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("nano", pa.timestamp("ns", "UTC")),
        ("t", pa.time64("us")),
        ("name", pa.string()),
        ("u", pa.uuid()),
        ("b", pa.binary()),
        ("st", pa.struct([("tz", pa.timestamp("us", "UTC")), ("l", pa.list_(pa.uuid()))])),
        ("m", pa.map_(pa.string(), pa.timestamp("us"))),
    ]
)
SPEC = ["month(tz)", "day(at)", "bucket(2, u)", "truncate(10, price)"]
SETTINGS = {
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.sql.legacy.sizeOfNull": "false",
}
# Some together that act at places of their own: where values are cast, and where names and plans are made.
FEW = [["spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.sources.useV1SourceList"]]
FEW += [["spark.sql.caseSensitive", "spark.sql.adaptive.enabled"]]


@contextmanager
def settings(spark: Any, *keys: str) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in keys}
    for key in keys:
        spark.conf.set(key, SETTINGS[key])
    try:
        yield
    finally:
        for key in keys:
            spark.conf.set(key, before[key])


def rows() -> list[dict[str, Any]]:
    """Instants on both sides of midnights and of a change to summer time, and before 1970."""
    starts = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 3, 10, 9, 59, 59)]
    found: list[dict[str, Any]] = [{"id": 100}]
    for n in range(10):
        at = starts[n % 2] + dt.timedelta(hours=n * 5)
        tz = at.replace(tzinfo=dt.UTC)
        one = uuid.UUID(int=n << 100 | n)
        found.append(
            {
                "id": n,
                "i": -(2**31) + n,
                "x": [0.5, float("nan"), -0.0][n % 3],
                "price": Decimal(n * 777 - 3000) / 100,
                "day": at.date(),
                "at": at,
                "tz": tz,
                "nano": tz,
                "t": at.time(),
                "name": f"it's \\n a\tname {n}",
                "u": one,
                "b": bytes([n, 255]),
                "st": {"tz": tz, "l": [one, None]},
                "m": {"k": at, "l": None},
            }
        )
    return found


def make(catalog: icecore.Catalog, name: str) -> icecore.Table:
    return catalog.create_table(name, SCHEMA, format_version=3, partition_spec=SPEC, sort_order=["bucket(4, u)", "id"])


def rows_of(table: icecore.Table) -> list[str]:
    return sorted(map(repr, table.scan().to_arrow().to_pylist()))


@pytest.mark.parametrize("keys", [*FEW, list(SETTINGS)], ids=["casts", "names and plans", "all"])
def test_a_table_is_the_one_written_through_arrow(spark: Any, catalog: icecore.Catalog, keys: list[str]) -> None:
    """Rows and partitions, by append and by overwrite, under a few settings or all at once."""
    mine, theirs = make(catalog, "ns.mine"), make(catalog, "ns.theirs")
    mine.append(rows())
    with settings(spark, *keys):
        frame = mine.scan().to_spark(spark)
        theirs.append(frame)
        assert rows_of(theirs) == rows_of(mine)
        partitions = [
            {str(t.partition) for t in (x.file for x in table.scan().plan_files())} for table in (mine, theirs)
        ]
        assert partitions[0] == partitions[1]
        theirs.overwrite(frame.where("id < 5"), "id < 5")
        assert rows_of(theirs) == rows_of(mine)
        # Days and times without a zone are of the session's, whatever it calls a timestamp.
        midnight = dt.datetime(2024, 3, 11, tzinfo=ZoneInfo(spark.conf.get("spark.sql.session.timeZone")))
        mine.append([{"id": 101, "tz": midnight, "nano": midnight}])
        theirs.append(spark.sql("SELECT 101L AS id, DATE '2024-03-11' AS tz, TIMESTAMP_NTZ '2024-03-11' AS nano"))
        with pytest.raises(ValidationError, match=r"column 'i'.*not in range"):
            theirs.append(spark.sql("SELECT 3000000000L AS i"))
        with pytest.raises(ValidationError, match=r"column 'id'.*long.*string"):
            theirs.append(spark.sql("SELECT '7' AS id"))
    assert rows_of(theirs) == rows_of(mine)
