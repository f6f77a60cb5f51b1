"""Verbs of Iceberg's Java classes, asked of the JVM."""

from __future__ import annotations

from typing import Any

from .model import Model
from .ours_shape import SETTINGS
from .partitions import partitioner, random_term
from .values import PROMOTIONS
from .verbs import Act, nothing, verb
from .world import ID, World

# Java deletes and overwrites by filter only where it takes whole files, and fails to look for the null of a partition
# among the texts of `IN`.
_HALF_A_FILE = "Cannot delete file where some, but not all, rows match|Invalid object: null"


@verb(5)
def append(world: World) -> Act | None:
    branch, rows, fast = world.branch(), world.rows(), world.dice.random() < 0.5
    return Act(
        f"{'fast ' if fast else ''}append of {len(rows)} rows to {branch}",
        lambda: world.java("append", rows=world.lists(rows), branch=branch, fast=fast),
        lambda m, _: m.append(branch, rows),
    )


@verb(1)
def stage(world: World) -> Act | None:
    rows, name = world.rows(), f"j{world.model.next_id}"
    return Act(
        f"stage {len(rows)} rows as {name}",
        lambda: world.java("append", rows=world.lists(rows), stage=name),
        lambda m, _: m.stage(rows, name),
    )


@verb(3)
def overwrite(world: World) -> Act | None:
    """Copy-on-write."""
    branch, rows = world.branch(), world.rows(0)
    where = world.filter(branch)
    return Act(
        f"overwrite {branch} with {len(rows)} rows: {where.sql()}",
        lambda: world.java("overwrite", rows=world.lists(rows), filter=where.java(), branch=branch),
        lambda m, _: m.replace(branch, where.holds, rows),
    )


@verb(1)
def overwrite_by_filter(world: World) -> Act | None:
    branch, rows = world.branch(), world.rows()
    where = world.filter(branch)
    return Act(
        f"overwrite by filter {branch} with {len(rows)} rows: {where.sql()}",
        lambda: world.java("overwrite_by_filter", rows=world.lists(rows), filter=where.java(), branch=branch),
        lambda m, _: m.replace(branch, where.holds, rows),
        may_refuse=_HALF_A_FILE,
    )


@verb(1)
def delete_by_filter(world: World) -> Act | None:
    branch = world.branch()
    where = world.filter(branch)
    return Act(
        f"delete by filter from {branch}: {where.sql()}",
        lambda: world.java("delete_by_filter", filter=where.java(), branch=branch),
        lambda m, _: m.replace(branch, where.holds),
        may_refuse=_HALF_A_FILE,
    )


@verb(4)
def row_delta(world: World) -> Act | None:
    """Position deletes in v2, deletion vectors in v3."""
    branch, rows = world.branch(), world.rows(0)
    where = world.filter(branch)
    if world.model.format_version < 2:
        return None
    return Act(
        f"row delta in {branch} with {len(rows)} rows: {where.sql()}",
        lambda: world.java("row_delta", rows=world.lists(rows), filter=where.java(), branch=branch),
        lambda m, _: m.replace(branch, where.holds, rows),
        # It can't validate a commit that makes its branch: all of main is taken for concurrent.
        may_refuse=None if branch in world.model.refs else "Cannot determine history|concurrently added DV",
    )


@verb(2)
def equality_delta(world: World) -> Act | None:
    """Equality deletes of a spec without fields hold in all partitions."""
    branch, rows = world.branch(), world.rows(0)
    here = world.model.at(branch)
    specs = [i for i, spec in world.ours().specs().items() if not spec.fields]
    if world.model.format_version < 2 or not here or not specs:
        return None
    gone = world.some(here)
    ids = {r[ID] for r in gone}
    field_id = world.ours().schema().find_field(world.model.column(ID).name).field_id

    def after(m: Model, _: Any) -> None:
        m.equality_keys.add(ID)
        m.replace(branch, lambda r: r[ID] in ids, rows)

    return Act(
        f"equality delta in {branch} of {len(gone)} keys with {len(rows)} rows",
        lambda: world.java(
            "equality_delta",
            rows=world.lists(rows),
            gone=world.lists(gone),
            fields=[field_id],
            spec=specs[0],
            branch=branch,
        ),
        after,
    )


@verb(2)
def rewrite_files(world: World) -> Act | None:
    branch, count = world.branch(), world.dice.randint(1, 4)
    if branch not in world.model.refs:
        return None
    keep = world.dice.random() < 0.5
    return Act(
        f"rewrite {count} files of {branch}",
        lambda: world.java("rewrite_files", files=count, branch=branch, keep_sequence=keep),
        lambda m, _: m.replace(branch, lambda r: False),
    )


@verb(2)
def rewrite_manifests(world: World) -> Act | None:
    if "main" not in world.model.refs:
        return None
    return Act(
        "rewrite manifests",
        lambda: world.java("rewrite_manifests"),
        lambda m, _: m.replace("main", lambda r: False),
    )


@verb(2)
def change_schema(world: World) -> Act | None:
    columns = world.model.columns
    column = world.dice.choice(columns)
    match world.dice.choice(("add", "rename", "swap", "drop", "promote", "first")):
        case "add" if len(columns) < 10:
            new = world.new_column(of_structs=False)
            edits = [{"do": "add", "name": new.name, "type": new.type}]
            return _schema(world, edits, lambda m, _: m.add_column(new))
        case "rename":
            name = world.new_column().name
            edits = [{"do": "rename", "name": column.name, "to": name}]
            return _schema(world, edits, lambda m, _: m.rename({column.key: name}))
        case "swap" if len(columns) > 1:
            a, b = world.dice.sample(columns, 2)
            edits = [{"do": "rename", "name": a.name, "to": b.name}, {"do": "rename", "name": b.name, "to": a.name}]
            return _schema(world, edits, lambda m, _: m.rename({a.key: b.name, b.key: a.name}))
        case "drop" if column in world.droppable() and len(columns) > 2:
            return _schema(world, [{"do": "drop", "name": column.name}], lambda m, _: m.drop_column(column.key))
        case "promote" if column.type in PROMOTIONS:
            wider = PROMOTIONS[column.type]
            edits = [{"do": "promote", "name": column.name, "type": wider}]
            return _schema(world, edits, lambda m, _: m.change_column(column.key, type=wider))
        case "first":

            def after(m: Model, _: Any) -> None:
                m.columns = (column, *(c for c in m.columns if c.key != column.key))

            return _schema(world, [{"do": "first", "name": column.name}], after)
    return None


def _schema(world: World, edits: list[dict[str, Any]], after: Any) -> Act:
    # No column may have the name of another one's partition field.
    cant = "partition field|Cannot find|partition sourced from different field"
    return Act(f"schema: {edits}", lambda: world.java("schema", schema=edits), after, may_refuse=cant)


@verb(1)
def change_spec(world: World) -> Act | None:
    fields = [f.name for f in world.ours().spec().fields if str(f.transform) != "void"]
    if fields and world.dice.random() < 0.5:
        edit: dict[str, Any] = {"do": "remove", "name": world.dice.choice(fields)}
    else:
        term = random_term(world.dice, world.model.columns)
        if term is None or len(fields) > 2:
            return None
        edit = {"do": "add", "name": f"q{world.model.next_id}", **term.java()}
        world.model.next_id += 1
    return Act(f"spec: {edit}", lambda: world.java("spec", spec=[edit]), nothing, may_refuse="duplicate|redundant")


@verb(1)
def set_property(world: World) -> Act | None:
    key, value = world.dice.choice(SETTINGS)
    return Act(
        f"set property {key}={value}",
        lambda: world.java("properties", set={key: value}),
        lambda m, _: m.properties.update({key: value}),
    )


@verb(1)
def replace_partitions(world: World) -> Act | None:
    """Of a table that was never partitioned it replaces everything."""
    metadata, rows, branch = world.ours().metadata, world.rows(), world.branch()
    partition = partitioner(world.model.columns, metadata)
    if partition is None:
        if any(spec.fields for spec in metadata.specs.values()):
            return None
        partition = lambda row: ()
    of_row, gone = partition, {partition(r) for r in rows}
    return Act(
        f"replace partitions of {branch} with {len(rows)} rows",
        lambda: world.java("replace_partitions", rows=world.lists(rows), branch=branch),
        lambda m, _: m.replace(branch, lambda r: of_row(r) in gone, rows),
    )


@verb(1)
def upgrade(world: World) -> Act | None:
    version = world.model.format_version + 1
    if version > 3:
        return None

    def after(m: Model, _: Any) -> None:
        m.format_version = version

    return Act(f"upgrade to v{version}", lambda: world.java("properties", set={"format-version": str(version)}), after)
