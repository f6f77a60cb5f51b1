"""Tables that Spark's tasks wrote, as Iceberg's own Java classes read them: row for row, after each change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import pytest
from fuzz.jvm import JavaUnavailable, Jvm, running_jvm

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

COLUMNS = (
    "id bigint, k int, name string, x double, price decimal(9, 2), day date, flag boolean, "
    "tags array<string>, at struct<lon: double, note: string>"
)


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    """One JVM for all tests; skips where there is no Java, no Maven, or nowhere to fetch the jars from."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(running_jvm())
        except JavaUnavailable as e:
            pytest.skip(str(e))
        yield running


def frame(spark: Any, ids: range) -> Any:
    """A row of each id, with nulls, an empty list, and text that is no ASCII."""
    return spark.range(ids.start, ids.stop).selectExpr(
        "id",
        "CAST(id % 3 AS int) AS k",
        "IF(id % 4 = 0, NULL, concat('ñ', id)) AS name",
        "id / 2 AS x",
        "IF(id % 5 = 0, NULL, CAST(id * 1.25 AS decimal(9, 2))) AS price",
        "date_add(DATE '1969-12-30', CAST(id AS int)) AS day",
        "id % 2 = 0 AS flag",
        "IF(id % 3 = 0, array(), array(concat('t', id), NULL)) AS tags",
        "IF(id % 7 = 0, NULL, named_struct('lon', id * 0.1D, 'note', CAST(NULL AS string))) AS at",
    )


def ours(table: icecore.Table) -> list[list[Any]]:
    return sorted([said(v) for v in row.values()] for row in table.refresh().scan().to_arrow().to_pylist())


def said(value: Any) -> Any:
    """A value as Java says it in JSON."""
    match value:
        case Decimal():
            return format(value, "f")
        case dict():
            return [said(v) for v in value.values()]
        case list():
            return [said(v) for v in value]
        case _ if value is None or isinstance(value, (bool, int, float, str)):
            return value
        case _:
            return str(value)


@pytest.mark.parametrize("version", [2, 3])
def test_java_reads_what_spark_wrote(spark: Any, jvm: Jvm, catalog: icecore.Catalog, version: int) -> None:
    """Appended, deleted from, merged into and compacted, with position deletes or deletion vectors."""
    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    struct = spark.createDataFrame([], COLUMNS).schema
    table = catalog.create_table(
        "ns.t", struct, partition_spec=["bucket(2, k)", "month(day)"], properties=modes, format_version=version
    )
    changes = table.spark.with_session(spark)

    def check() -> None:
        expected = ours(table)
        jvm.ask("open", warehouse=str(catalog.path))
        try:
            assert sorted(jvm.ask("read", table="ns.t")["rows"]) == expected
        finally:
            jvm.ask("close")
        assert len(expected) == rows

    table.append(frame(spark, range(20)))
    rows = 20
    check()
    changes.delete("id IN (3, 4)")
    rows = 18
    check()
    merge = changes.merge(frame(spark, range(15, 25)).selectExpr("* EXCEPT (name)", "'new' AS name"), on=["id"])
    merge.when_matched_update_all().when_not_matched_insert_all().commit()
    rows = 23
    check()
    changes.rewrite_data_files(options={"rewrite-all": True})
    check()
