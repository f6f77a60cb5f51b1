"""What a Spark session must see, under settings that the dice choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import icecore

from .checks import arrow_rows, same
from .filters import Filter
from .model import seen
from .world import NAME, World

SETTINGS = {
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.sources.useV1SourceList": ("avro,csv,json,kafka,orc,parquet,text", ""),
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kathmandu"),
    "spark.sql.caseSensitive": ("false", "true"),
    "spark.sql.parquet.filterPushdown": ("true", "false"),
    "spark.sql.parquet.columnarReaderBatchSize": ("4096", "3"),
    "spark.sql.parquet.aggregatePushdown": ("false", "true"),
    "spark.sql.codegen.wholeStage": ("true", "false"),
}
"""Each with Spark's own value first."""


def check_by_spark(world: World, table: icecore.Table) -> None:
    """Rows of main by one way of a DataFrame, and of a snapshot at times."""
    model, dice = world.model, world.dice
    with _settings(world) as said:
        where = world.filter() if dice.random() < 0.7 else None
        expected = seen(model.columns, model.rows(), where)
        what = f"rows of main{' where ' + where.sql() if where else ''} by Spark, {said}"
        frame = _frame(world, table, where)
        if dice.random() < 0.3:
            # What a frame depends on is its own: another library may switch it off.
            world.spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
        same(what, expected, arrow_rows(frame.toArrow()))
        same(f"count of {what}", len(expected), frame.count())
        version = world.version()
        if version is not None and dice.random() < 0.4:
            rows = table.scan(snapshot_id=version.snapshot_id).to_spark(world.spark).toArrow()
            then = f"rows of snapshot {version.snapshot_id} by Spark, {said}"
            same(then, seen(version.columns, version.rows), arrow_rows(rows))


def _frame(world: World, table: icecore.Table, where: Filter | None) -> Any:
    """Filtered by the scan, in Spark, or in a source of Spark's."""
    way = world.dice.choice(("scan", "spark", "source"))
    if way == "scan":
        return table.scan(where.sql() if where else None).to_spark(world.spark)
    if way == "spark":
        frame = table.scan().to_spark(world.spark)
    else:
        frame = world.spark.read.format("icecore").option("warehouse", str(world.folder)).load(NAME)
    return frame if where is None else frame.where(where.spark())


@contextmanager
def _settings(world: World) -> Iterator[dict[str, str]]:
    """A context with some settings that are not Spark's own."""
    chosen = {k: world.dice.choice(v) for k, v in SETTINGS.items() if world.dice.random() < 0.3}
    conf = world.spark.conf
    for key, value in chosen.items():
        conf.set(key, value)
    try:
        yield {k.rpartition(".")[2]: v for k, v in chosen.items() if v != SETTINGS[k][0]}
    finally:
        for key in (*chosen, "spark.sql.parquet.fieldId.read.enabled"):
            conf.unset(key)
