"""Our verbs that change rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pinned_files import position_deletes, rewritten, storage_of

import icecore
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.spec.content_file import ContentFile

from .filters import Row
from .model import Model
from .partitions import partitioner
from .verbs import Act, verb
from .world import ID, World

DataOf: TypeAlias = "Callable[[Sequence[Row]], Any]"
"""Rows as what they are handed to a table in."""


def _files(table: icecore.Table, data: Any) -> list[ContentFile]:
    """Data files as another writer would make them, not committed."""
    return write_data_files(
        data,
        schema=table.schema(),
        spec=table.spec(),
        location=f"{table.location()}/data",
        storage=storage_of(table),
        properties=table.properties,
        file_prefix=str(uuid.uuid4()),
    )


@verb(6)
def append(world: World) -> Act | None:
    return appending(world, world.arrow)


def appending(world: World, data_of: DataOf) -> Act:
    table, branch, rows = world.held(), world.branch(), world.rows()
    data = data_of(rows)
    return Act(
        f"append {len(rows)} rows to {branch}",
        lambda: table.append(data, branch=branch),
        lambda m, _: m.append(branch, rows),
    )


@verb(2)
def append_of_some_columns(world: World) -> Act | None:
    """Columns that are not in the data are null, or have their default."""
    table, rows = world.held(), world.rows()
    columns = [c for c in world.model.columns if c.key == ID or world.dice.random() < 0.6]
    keys = {c.key for c in columns}
    world.dice.shuffle(columns)
    stored = tuple({k: v for k, v in r.items() if k in keys} for r in rows)
    return Act(
        f"append {len(rows)} rows of the columns {[c.name for c in columns]}",
        lambda: table.append(world.arrow(rows, columns)),
        lambda m, _: m.append("main", stored),
    )


@verb(2)
def append_files(world: World) -> Act | None:
    table, branch, rows = world.ours(), world.branch(), world.rows()
    return Act(
        f"append_files of {len(rows)} rows to {branch}",
        lambda: table.append_files(_files(table, world.arrow(rows)), branch=branch),
        lambda m, _: m.append(branch, rows),
    )


@verb(5)
def delete(world: World) -> Act | None:
    table, branch = world.held(), world.branch()
    where = world.filter(branch)
    return Act(
        f"delete from {branch}: {where.sql()}",
        lambda: table.delete(where.sql(), branch=branch),
        lambda m, _: m.replace(branch, where.holds),
    )


@verb(3)
def overwrite(world: World) -> Act | None:
    return overwriting(world, world.arrow)


def overwriting(world: World, data_of: DataOf) -> Act:
    table, branch, rows = world.held(), world.branch(), world.rows()
    where = world.filter(branch)
    return Act(
        f"overwrite {branch} with {len(rows)} rows: {where.sql()}",
        lambda: table.overwrite(data_of(rows), where.sql(), branch=branch),
        lambda m, _: m.replace(branch, where.holds, rows),
    )


@verb(1)
def overwrite_all(world: World) -> Act | None:
    table, rows = world.held(), world.rows()
    return Act(
        f"overwrite all with {len(rows)} rows",
        lambda: table.overwrite(world.arrow(rows)),
        lambda m, _: m.replace("main", lambda r: True, rows),
    )


@verb(2)
def dynamic_partition_overwrite(world: World) -> Act | None:
    return overwriting_partitions(world, world.arrow)


def overwriting_partitions(world: World, data_of: DataOf) -> Act | None:
    table, branch, rows = world.ours(), world.branch(), world.rows()
    partition = partitioner(world.model.columns, table.metadata)
    if partition is None:
        return None
    gone = {partition(r) for r in rows}
    return Act(
        f"overwrite the partitions of {len(rows)} rows in {branch}",
        lambda: table.dynamic_partition_overwrite(data_of(rows), branch=branch),
        lambda m, _: m.replace(branch, lambda r: partition(r) in gone, rows),
    )


@verb(3)
def upsert(world: World) -> Act | None:
    table, branch = world.held(), world.branch()
    here = world.model.at(branch)
    changed = [world.changed(r) for r in world.some(here)] if here else []
    rows = (*changed, *world.rows(0, 2))
    if not rows:
        return None
    ids = {r[ID] for r in rows}
    name = world.model.column(ID).name
    return Act(
        f"upsert {len(changed)} known and {len(rows) - len(changed)} new rows on {name!r} in {branch}",
        lambda: table.upsert(world.arrow(rows), [name], branch=branch),
        lambda m, _: m.replace(branch, lambda r: r[ID] in ids, rows),
    )


@verb(2)
def delete_keys(world: World) -> Act | None:
    """By equality deletes; where the keys don't tell the partition it is refused."""
    table, branch = world.held(), world.branch()
    here = world.model.at(branch)
    if not here or world.model.format_version < 2:
        return None
    more = world.dice.sample(world.model.columns, min(2, len(world.model.columns)))
    columns = [c for c in world.model.plain if c.key == ID or (c in more and not c.is_float)]
    gone = [[c.of(r) for c in columns] for r in world.some(here)]
    keys = world.arrow([dict(zip((c.key for c in columns), k, strict=True)) for k in gone], columns)

    def after(m: Model, _: Any) -> None:
        m.equality_keys.update(c.key for c in columns)
        m.replace(branch, lambda r: [c.of(r) for c in columns] in gone)

    names = [c.name for c in columns]
    return Act(
        f"delete_keys of {len(gone)} rows by {names} in {branch}",
        lambda: table.delete_keys(keys, names, branch=branch),
        after,
        may_refuse="partition",
    )


@verb(2)
def row_delta(world: World) -> Act | None:
    table, rows = world.ours(), world.rows()
    if world.model.format_version < 2 or not world.model.rows():
        return None
    where = world.filter()
    return Act(
        f"row_delta with {len(rows)} rows: {where.sql()}",
        lambda: table.row_delta(_files(table, world.arrow(rows)), position_deletes(table, where.sql())),
        lambda m, _: m.replace("main", where.holds, rows),
    )


@verb(1)
def overwrite_files(world: World) -> Act | None:
    table = world.ours()
    where = world.filter()

    def run() -> None:
        gone, added = rewritten(table, where.sql(), keep=False)
        table.overwrite_files([f.file_path for f in gone], added)

    if not world.model.rows():
        return None
    return Act(f"overwrite_files: {where.sql()}", run, lambda m, _: m.replace("main", where.holds))


@verb(1)
def rewrite_files(world: World) -> Act | None:
    table = world.ours()
    where = world.filter()

    def run() -> None:
        gone, added = rewritten(table, where.sql())
        if gone:
            table.rewrite_files([f.file_path for f in gone], added)

    return Act(f"rewrite_files: {where.sql()}", run, lambda m, _: m.replace("main", lambda r: False))


@verb(2)
def transaction(world: World) -> Act | None:
    """A delete, an append and a property as one commit."""
    table, rows = world.held(), world.rows()
    where = world.filter()
    value = str(world.model.next_id)

    def run() -> None:
        with table.transaction() as change:
            change.delete(where.sql())
            change.append(world.arrow(rows))
            change.set_properties({"step": value})

    def after(m: Model, _: Any) -> None:
        m.properties["step"] = value
        m.replace("main", where.holds, rows)

    return Act(f"transaction: delete {where.sql()}, append {len(rows)} rows", run, after)


@verb(2)
def stage(world: World) -> Act | None:
    """Write-audit-publish: a snapshot that no branch has, to be cherry-picked."""
    table, rows = world.ours(), world.rows()
    name = f"w{world.model.next_id}"

    def run() -> None:
        with table.transaction() as change:
            change.set_properties({"write.wap.enabled": "true"})
            change.append(world.arrow(rows), snapshot_properties={"wap.id": name})

    def after(m: Model, _: Any) -> None:
        m.properties["write.wap.enabled"] = "true"
        m.stage(rows, name)

    return Act(f"stage {len(rows)} rows as {name}", run, after)
