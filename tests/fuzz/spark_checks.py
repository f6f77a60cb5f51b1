"""What a Spark session must see, under settings that the dice choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen

import icecore

from .checks import arrow_rows, same
from .filters import Compared, Filter, Row, random_filter
from .model import Column, seen
from .values import canonical
from .world import NAME, World

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
PLANNED = "spark.icecore.plannedFiles.enabled"
SETTINGS = {
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.parquet.enableNestedColumnVectorizedReader": ("true", "false"),
    "spark.sql.sources.useV1SourceList": ("avro,csv,json,kafka,orc,parquet,text", ""),
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kathmandu"),
    "spark.sql.caseSensitive": ("false", "true"),
    "spark.sql.parquet.filterPushdown": ("true", "false"),
    "spark.sql.parquet.columnarReaderBatchSize": ("4096", "3"),
    "spark.sql.parquet.aggregatePushdown": ("false", "true"),
    "spark.sql.codegen.wholeStage": ("true", "false"),
    "spark.sql.optimizer.nestedSchemaPruning.enabled": ("true", "false"),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.files.maxPartitionBytes": ("128MB", "1KB"),
    PLANNED: ("true", "false"),
}
"""Each with Spark's own value first."""


@frozen
class Asked:
    """What is read of a table: the columns and rows of a reference or of a snapshot, where a filter holds."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    where: Filter | None
    chosen: dict[str, Any]

    @property
    def sql(self) -> str | None:
        return None if self.where is None else self.where.sql()

    @property
    def expected(self) -> list[tuple[Any, ...]]:
        return seen(self.columns, self.rows, self.where)


def check_by_spark(world: World, table: icecore.Table) -> None:
    """Rows of main by one way of a DataFrame, and of a branch or a snapshot at times."""
    dice = world.dice
    with _settings(world) as said:
        asked = _asked(world)
        way = dice.choice([w for w in WAYS if w != "name" or has_catalogs(world)])
        frame = WAYS[way](world, table, asked)
        what = f"rows of {asked.chosen or 'main'}{f' where {asked.sql}' if asked.where else ''} by Spark, {way}, {said}"
        if dice.random() < 0.3 and PLANNED not in said and has_catalogs(world):
            # What a frame depends on is its own: another library may switch it off.
            world.spark.conf.set(FIELD_IDS, "false")
        same(what, asked.expected, arrow_rows(frame.toArrow()))
        same(f"count of {what}", len(asked.expected), frame.count())
        if dice.random() < 0.3:
            most = dice.randint(0, 3)
            found = arrow_rows(frame.limit(most).toArrow())
            same(f"{most} of the {what}", min(most, len(asked.expected)), len(found))
            same(f"others than {what}", [], [r for r in found if r not in asked.expected])
        world.spark.conf.unset(FIELD_IDS)
        if dice.random() < 0.4:
            dice.choice((_metadata_columns, _changelog, _aggregates, _appended))(world, table)


def _asked(world: World) -> Asked:
    """Main, mostly; else a branch, which has the columns of now, or a snapshot, which has its own."""
    model, dice = world.model, world.dice
    version = world.version()
    if version is not None and dice.random() < 0.25:
        # A filter is of the columns of that snapshot.
        columns = [c for c in version.columns if not c.is_struct]
        where = None
        if dice.random() < 0.7:
            where = random_filter(dice, columns, version.rows)
        return Asked(version.columns, version.rows, where, {"snapshot_id": version.snapshot_id})
    others = [b for b in model.branches if b in model.refs]
    branch = dice.choice(others) if others and dice.random() < 0.3 else "main"
    where = world.filter(branch) if dice.random() < 0.7 else None
    return Asked(model.columns, model.rows(branch), where, {} if branch == "main" else {"ref": branch})


Way = Callable[[World, icecore.Table, Asked], Any]


def _scan(world: World, table: icecore.Table, asked: Asked) -> Any:
    return table.scan(asked.sql, **asked.chosen).to_spark(world.spark)


def _spark(world: World, table: icecore.Table, asked: Asked) -> Any:
    return _where(table.scan(**asked.chosen).to_spark(world.spark), asked)


def _source(world: World, table: icecore.Table, asked: Asked) -> Any:
    """Filtered by an option, or in Spark; with its columns named in another order at times."""
    read = world.spark.read.format("icecore").option("warehouse", str(world.folder))
    for name, value in asked.chosen.items():
        read = read.option(name.replace("_", "-"), value)
    by_option = world.dice.random() < 0.5
    if by_option and asked.sql is not None:
        read = read.option("filter", asked.sql)
    frame = read.load(NAME)
    return frame if by_option else _where(frame, asked)


def _planned(world: World, table: icecore.Table, asked: Asked) -> Any:
    return table.scan(asked.sql, **asked.chosen).planned_by(world.spark).to_spark(world.spark)


def _exported(world: World, table: icecore.Table, asked: Asked) -> Any:
    folder = world.folder.parent / "exported"
    table.scan(asked.sql, **asked.chosen).export(folder)
    return icecore.spark.load_plan(world.spark, folder)


def _by_name(world: World, table: icecore.Table, asked: Asked) -> Any:
    return _where(world.spark.sql(f"SELECT * FROM {named_catalog(world)}.{NAME}{_version(asked)}"), asked)


def _by_sql(world: World, table: icecore.Table, asked: Asked) -> Any:
    where = f" WHERE {asked.where.spark()}" if asked.where else ""
    query = f"SELECT * FROM lake.{NAME}{_version(asked)}{where}"
    return icecore.spark.sql(world.spark, world.dice.choice(world.catalogs), query)


WAYS: dict[str, Way] = {
    "scan": _scan,
    "spark": _spark,
    "source": _source,
    "planned": _planned,
    "exported": _exported,
    "name": _by_name,
    "sql": _by_sql,
}


def _where(frame: Any, asked: Asked) -> Any:
    return frame if asked.where is None else frame.where(asked.where.spark())


def _version(asked: Asked) -> str:
    found = "".join(str(v) for v in asked.chosen.values())
    return "" if not found else f" VERSION AS OF {found if found.isdigit() else repr(found)}"


def has_catalogs(world: World) -> bool:
    """Whether the session can have ours: not in Spark Connect, which reads by public API alone."""
    return "connect" not in type(world.spark).__module__


def named_catalog(world: World) -> str:
    """The name of one of our catalogs in the session."""
    which = world.dice.randrange(len(world.catalogs))
    name = f"walk_{abs(hash((str(world.folder), which, id(world.catalogs[which]))))}"
    icecore.spark.catalog(world.spark, world.catalogs[which], name=name)
    return name


def _metadata_columns(world: World, table: icecore.Table) -> None:
    """Files, positions, row ids and what is deleted are those of a scan."""
    names = ["_file", "_pos", "_spec_id"]
    if world.model.format_version >= 3:
        names += ["_row_id", "_last_updated_sequence_number"]
    if world.dice.random() < 0.3:
        names.append("_deleted")
    scan = table.scan(selected_fields=[*names, "*"])
    same(f"{names} by Spark", arrow_rows(scan.to_arrow()), arrow_rows(scan.to_spark(world.spark).toArrow()))


def _changelog(world: World, table: icecore.Table) -> None:
    known = [v for v in _line(world) if not v.is_expired]
    if len(known) < 2:
        return
    start = world.dice.choice(known[1:])
    scan = table.incremental_changelog_scan(from_snapshot_id_exclusive=start.snapshot_id)
    same("changes by Spark", arrow_rows(scan.to_arrow()), arrow_rows(scan.to_spark(world.spark).toArrow()))


def _appended(world: World, table: icecore.Table) -> None:
    steps = _line(world)
    back = next((i for i, v in enumerate(steps) if v.appended is None), len(steps) - 1)
    if back < 1:
        return
    read = world.spark.read.format("icecore").option("warehouse", str(world.folder))
    read = read.option("start-snapshot-id", steps[back].snapshot_id)
    rows = [r for v in steps[:back] for r in v.appended or ()]
    same("rows appended, by Spark", seen(world.model.columns, rows), arrow_rows(read.load(NAME).toArrow()))


def _line(world: World) -> Sequence[Any]:
    """Main's last snapshots, as far as they are known, the newest first."""
    out = []
    version = world.model.refs.get("main")
    while version is not None and version.is_known and not version.is_expired:
        out.append(version)
        version = version.parent
    return out


def _aggregates(world: World, table: icecore.Table) -> None:
    model, dice = world.model, world.dice
    column = dice.choice([c for c in model.plain if not c.is_float and c.type != "boolean"] or [model.columns[0]])
    values = [v for v in (column.of(r) for r in model.rows()) if v is not None]
    ordered = sorted(values, key=lambda v: Compared(column, "=", (v,)).ordered(v))
    asked = f"count(*), count(`{column.name}`), min(`{column.name}`), max(`{column.name}`)"
    if has_catalogs(world):
        found = world.spark.sql(f"SELECT {asked} FROM {named_catalog(world)}.{NAME}").toArrow()
    else:
        found = icecore.spark.sql(world.spark, world.catalogs[0], f"SELECT {asked} FROM lake.{NAME}").toArrow()
    expected = [len(model.rows()), len(values), ordered[0] if ordered else None, ordered[-1] if ordered else None]
    same(f"{asked} by Spark", expected, [canonical(c[0].as_py()) for c in found.columns])


@contextmanager
def _settings(world: World) -> Iterator[dict[str, str]]:
    """A context with some settings that are not Spark's own."""
    chosen = {k: world.dice.choice(v) for k, v in SETTINGS.items() if world.dice.random() < 0.3}
    conf = world.spark.conf
    before = {k: conf.get(k, None) for k in (*chosen, FIELD_IDS)}
    for key, value in chosen.items():
        conf.set(key, value)
    try:
        yield {k: v for k, v in chosen.items() if v != SETTINGS[k][0]}
    finally:
        for key, value in before.items():
            conf.unset(key) if value is None else conf.set(key, value)
