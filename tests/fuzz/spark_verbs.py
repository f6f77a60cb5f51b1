"""Our verbs that change rows by Spark, taken where a walk has a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .filters import Row, spark_literal
from .model import Model
from .ours_rows import appending, overwriting, overwriting_partitions
from .spark_checks import has_catalogs, named_catalog
from .verbs import Act, verb
from .world import ID, NAME, World


@verb(4)
def append(world: World) -> Act | None:
    return appending(world, partial(_frame, world))


@verb(2)
def overwrite(world: World) -> Act | None:
    return overwriting(world, partial(_frame, world))


@verb(2)
def dynamic_partition_overwrite(world: World) -> Act | None:
    return overwriting_partitions(world, partial(_frame, world))


@verb(4)
def delete(world: World) -> Act | None:
    """By a filter of ours, or by Spark's words for it, for which every file is read."""
    table, branch = world.held(), world.branch()
    where = world.filter(branch)
    said: Any = where.sql()
    if world.dice.random() < 0.4:
        from pyspark.sql import functions as f

        said = f.expr(where.spark())
    return Act(
        f"delete from {branch}: {where.sql()}{'' if isinstance(said, str) else ', in words of Spark'}",
        lambda: table.spark.delete(said, branch=branch),
        lambda m, _: m.replace(branch, where.holds),
    )


@verb(3)
def update(world: World) -> Act | None:
    """One column is that of some row; the others stay."""
    table, branch = world.held(), world.branch()
    here = world.model.at(branch)
    others = [c for c in world.model.plain if c.key != ID]
    if not here or not others:
        return None
    where, column = world.filter(branch), world.dice.choice(others)
    value = column.of(world.dice.choice(list(here)))
    values = {column.name: spark_literal(column.type, value)}

    def after(m: Model, _: Any) -> None:
        m.replace(branch, where.holds, tuple({**r, column.key: value} for r in here if where.holds(r)))

    return Act(
        f"update {branch}, {column.name!r} = {value!r}: {where.sql()}",
        lambda: table.spark.update(values, where.sql(), branch=branch),
        after,
    )


@verb(3)
def upsert(world: World) -> Act | None:
    table, branch = world.held(), world.branch()
    rows = _changed_and_new(world, branch)
    if rows is None:
        return None
    ids, name = {r[ID] for r in rows}, world.model.column(ID).name
    return Act(
        f"upsert {len(rows)} rows on {name!r} in {branch}",
        lambda: table.spark.upsert(_frame(world, rows), [name], branch=branch),
        lambda m, _: m.replace(branch, lambda r: r[ID] in ids, rows),
    )


@verb(4)
def merge(world: World) -> Act | None:
    """Matched rows are updated or deleted, others inserted, and what no row matches goes by a filter at times."""
    table, branch = world.held(), world.branch()
    rows = _changed_and_new(world, branch)
    if rows is None:
        return None
    deletes, inserts = world.dice.random() < 0.3, world.dice.random() < 0.7
    name, ids = world.model.column(ID).name, {r[ID] for r in rows}
    here = world.model.at(branch)
    known = {r[ID] for r in here}
    gone = world.filter(branch) if world.dice.random() < 0.3 else None

    def run() -> Any:
        change = table.spark.merge(_frame(world, rows), on=[name])
        change = change.when_matched_delete() if deletes else change.when_matched_update_all()
        if inserts:
            change = change.when_not_matched_insert_all()
        if gone is not None:
            change = change.when_not_matched_by_source_delete(gone.spark("target."))
        return change.commit(branch=branch)

    def after(m: Model, _: Any) -> None:
        new = [r for r in rows if (r[ID] in known and not deletes) or (r[ID] not in known and inserts)]
        m.replace(branch, lambda r: r[ID] in ids or (gone is not None and gone.holds(r)), new)

    matched = "deleted" if deletes else "updated"
    said = f"merge {len(rows)} rows on {name!r} into {branch}, matched ones {matched}, others {inserts}"
    return Act(f"{said}, by source {gone and gone.sql()}", run, after)


@verb(2)
def write_format(world: World) -> Act | None:
    """An append, an overwrite by a filter or one of all rows, by the format's own words."""
    branch, rows = world.branch(), world.rows()
    where = world.filter(branch) if world.dice.random() < 0.5 else None
    appends = world.dice.random() < 0.5
    options = {"warehouse": str(world.folder), "branch": branch}
    if where is not None and not appends:
        options["overwrite-filter"] = where.sql()

    def run() -> None:
        mode = "append" if appends else "overwrite"
        _frame(world, rows).write.format("icecore").options(**options).mode(mode).save(NAME)

    def after(m: Model, _: Any) -> None:
        if appends:
            m.append(branch, rows)
        else:
            m.replace(branch, where.holds if where is not None else lambda r: True, rows)

    said = "append" if appends else f"overwrite of {where.sql() if where else 'all'}"
    return Act(f"{said} with {len(rows)} rows in {branch} by the format", run, after)


@verb(2)
def sql(world: World) -> Act | None:
    """INSERT, DELETE, UPDATE or MERGE of Spark SQL, of main."""
    if not has_catalogs(world):
        return None
    rows = _changed_and_new(world, "main")
    others = [c for c in world.model.plain if c.key != ID]
    if rows is None or not others:
        return None
    here, where, column = world.model.rows(), world.filter(), world.dice.choice(others)
    key, ids = f"`{world.model.column(ID).name}`", {r[ID] for r in rows}
    value = column.of(world.dice.choice(list(rows)))
    table, view = f"{named_catalog(world)}.{NAME}", "rows_of_a_walk"
    settings = f"`{column.name}` = {spark_literal(column.type, value)}"
    statements: dict[str, Callable[[Model], object]] = {
        f"INSERT INTO {table} SELECT * FROM {view}": lambda m: m.append("main", rows),
        f"DELETE FROM {table} WHERE {where.spark()}": lambda m: m.replace("main", where.holds),
        f"UPDATE {table} SET {settings} WHERE {where.spark()}": lambda m: m.replace(
            "main", where.holds, tuple({**r, column.key: value} for r in here if where.holds(r))
        ),
        f"MERGE INTO {table} AS t USING {view} AS s ON t.{key} = s.{key} WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *": lambda m: m.replace("main", lambda r: r[ID] in ids, rows),
    }
    statement = world.dice.choice(list(statements))

    def run() -> None:
        _frame(world, rows).createOrReplaceTempView(view)
        world.spark.sql(statement)

    return Act(f"{statement.replace(table, NAME)}, {len(rows)} rows", run, lambda m, _: statements[statement](m))


@verb(1)
def stream(world: World) -> Act | None:
    """Rows of a file as a stream into a branch; it runs a second time from its checkpoint, with nothing to do."""
    branch, rows = world.branch(), world.rows()
    folder = world.place("stream")

    def run() -> None:
        frame = _frame(world, rows)
        frame.write.parquet(str(folder / "rows"))
        for _ in range(2):
            read = world.spark.readStream.schema(frame.schema).parquet(str(folder / "rows"))
            write = read.writeStream.format("icecore").option("warehouse", str(world.folder)).option("branch", branch)
            write = write.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
            write.start(NAME).awaitTermination()

    return Act(f"stream {len(rows)} rows into {branch}", run, lambda m, _: m.append(branch, rows))


@verb(2)
def rewrite(world: World) -> Act | None:
    """Compaction of all files, or of position deletes, in tasks."""
    table, column = world.ours(), world.dice.choice(world.model.plain)
    if "main" not in world.model.refs:
        return None
    if world.dice.random() < 0.3:
        return Act("rewrite_position_delete_files", table.spark.rewrite_position_delete_files, _same_rows)
    order = ['"' + column.name.replace('"', '""') + '"']
    how: dict[str, Any] = {"strategy": "sort", "sort_order": order} if world.dice.random() < 0.4 else {}
    return Act(
        f"rewrite_data_files, {how}",
        lambda: table.spark.rewrite_data_files(options={"rewrite-all": True}, **how),
        _same_rows,
    )


def _same_rows(model: Model, answer: Any) -> None:
    model.replace("main", lambda r: False)


def _changed_and_new(world: World, branch: str) -> tuple[Row, ...] | None:
    here = world.model.at(branch)
    if len({r[ID] for r in here}) < len(here):
        return None
    changed = [world.changed(r) for r in world.some(here)] if here else []
    return (*changed, *world.rows(0, 2)) or None


def _frame(world: World, rows: Sequence[Row]) -> Any:
    return world.spark.createDataFrame(world.arrow(rows))
