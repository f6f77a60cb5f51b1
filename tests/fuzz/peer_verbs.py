"""Verbs of PyIceberg, which writes neither version 3 nor where equality deletes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg import types as pyice

from .checks import PEER_CANT
from .filters import Filter
from .model import Model
from .partitions import partitioner
from .verbs import Act, nothing, verb
from .world import ID, World

# What it can't: that, transforms without an extra package, and two void partition fields of one column.
_CANT = f"{PEER_CANT}|pyiceberg_core needs to be installed|Cannot have redundant partitions"

TYPES = {
    "int": pyice.IntegerType(),
    "long": pyice.LongType(),
    "float": pyice.FloatType(),
    "double": pyice.DoubleType(),
    "string": pyice.StringType(),
    "date": pyice.DateType(),
    "timestamp": pyice.TimestampType(),
    "decimal(9, 2)": pyice.DecimalType(9, 2),
    "boolean": pyice.BooleanType(),
}


def _act(
    world: World,
    text: str,
    run: Callable[[], object],
    after: Callable[[Model, Any], object],
    may_refuse: str = _CANT,
) -> Act | None:
    return None if world.model.format_version > 2 or world.is_file_system else Act(text, run, after, may_refuse)


def _filter(world: World) -> Filter:
    """One that it deletes by rightly: an `IN` takes rows with NaN too, an `OR` leaves rows with a null."""
    return world.filter(of_floats=False, depth=0)


@verb(4)
def append(world: World) -> Act | None:
    branch, rows = world.branch(), world.rows()
    if branch not in world.model.refs and branch != "main":
        return None
    return _act(
        world,
        f"append {len(rows)} rows to {branch}",
        lambda: world.theirs().append(world.arrow(rows), branch=branch),
        lambda m, _: m.append(branch, rows),
    )


@verb(3)
def delete(world: World) -> Act | None:
    if world.is_beyond_theirs():
        return None  # rows that it takes for live come back in what it writes again
    where = _filter(world)
    return _act(
        world,
        f"delete: {where.sql()}",
        lambda: world.theirs().delete(where.pyice()),
        lambda m, _: m.replace("main", where.holds),
    )


@verb(2)
def overwrite(world: World) -> Act | None:
    if world.is_beyond_theirs():
        return None
    where, rows = _filter(world), world.rows()
    return _act(
        world,
        f"overwrite with {len(rows)} rows: {where.sql()}",
        lambda: world.theirs().overwrite(world.arrow(rows), where.pyice()),
        lambda m, _: m.replace("main", where.holds, rows),
    )


@verb(1)
def dynamic_partition_overwrite(world: World) -> Act | None:
    if world.is_beyond_theirs():
        return None
    partition, rows = partitioner(world.model.columns, world.ours().metadata), world.rows()
    if partition is None:
        return None
    of_row, gone = partition, {partition(r) for r in rows}
    return _act(
        world,
        f"overwrite the partitions of {len(rows)} rows",
        lambda: world.theirs().dynamic_partition_overwrite(world.arrow(rows)),
        lambda m, _: m.replace("main", lambda r: of_row(r) in gone, rows),
        f"{_CANT}|identity",
    )


@verb(1)
def upsert(world: World) -> Act | None:
    if world.is_beyond_theirs():
        return None
    here = world.model.rows()
    metadata = world.ours().metadata
    snapshot = metadata.current_snapshot()
    # It reads the rows by the names that columns had at the snapshot.
    if not here or snapshot is None or snapshot.schema_id != metadata.current_schema_id:
        return None
    changed = [world.changed(r) for r in world.some(here)]
    rows = (*changed, *world.rows(0, 2))
    ids = {r[ID] for r in rows}
    name = world.model.column(ID).name
    return _act(
        world,
        f"upsert {len(rows)} rows",
        lambda: world.theirs().upsert(world.arrow(rows), [name]),
        lambda m, _: m.replace("main", lambda r: r[ID] in ids, rows),
        # Nor does it compare structs with rows from before a column was added.
        f"{_CANT}|Target schema's field names are not matching",
    )


@verb(1)
def change_schema(world: World) -> Act | None:
    column, new = world.dice.choice(world.model.columns), world.new_column(of_structs=False)
    if world.dice.random() < 0.5 and len(world.model.columns) < 10:

        def add() -> None:
            with world.theirs().update_schema() as update:
                update.add_column((new.name,), TYPES[new.type])

        return _act(world, f"add column {new}", add, lambda m, _: m.add_column(new))

    def rename() -> None:
        with world.theirs().update_schema() as update:
            update.rename_column((column.name,), new.name)

    return _act(world, f"rename {column.name!r} to {new.name!r}", rename, lambda m, _: m.rename({column.key: new.name}))


@verb(1)
def set_property(world: World) -> Act | None:
    value = str(world.model.next_id)

    def run() -> None:
        with world.theirs().transaction() as change:
            change.set_properties({"theirs": value})

    return _act(world, f"set property theirs={value}", run, lambda m, _: m.properties.update({"theirs": value}))


@verb(1)
def create_ref(world: World) -> Act | None:
    version = world.version()
    name = f"b{world.dice.randrange(5)}"
    if version is None or name in world.model.refs:
        return None

    def after(m: Model, _: Any) -> None:
        m.refs[name] = version

    return _act(
        world,
        f"create branch {name}",
        lambda: world.theirs().manage_snapshots().create_branch(version.snapshot_id, name).commit(),
        after,
    )


@verb(1)
def expire(world: World) -> Act | None:
    heads = list(map(id, world.model.refs.values()))
    candidates = [v for v in world.model.known if id(v) not in heads]
    if not candidates:
        return None
    version = world.dice.choice(candidates)

    def after(m: Model, _: Any) -> None:
        version.is_expired = True

    return _act(
        world,
        "expire a snapshot",
        lambda: world.theirs().maintenance.expire_snapshots().by_id(version.snapshot_id).commit(),
        after,
    )


@verb(1)
def reread(world: World) -> Act | None:
    return Act("load", world.theirs, nothing)
