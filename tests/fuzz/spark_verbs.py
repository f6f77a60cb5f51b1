"""Our verbs that change rows by Spark, taken where a walk has a session."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .filters import Row, spark_literal
from .model import Model
from .ours_rows import appending, overwriting, overwriting_partitions
from .verbs import Act, verb
from .world import ID, World


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
