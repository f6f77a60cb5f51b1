"""Our verbs that keep the rows as they are: columns, partitions, files, properties, names, the log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from attrs import evolve

import icecore

from .model import Column, Model
from .partitions import random_term
from .values import ARROW, PROMOTIONS, python_value, random_value
from .verbs import Act, nothing, verb
from .world import NAME, World


@verb(2)
def add_column(world: World) -> Act | None:
    table, column = world.ours(), world.new_column()
    if world.model.format_version >= 3 and world.dice.random() < 0.4:
        default = random_value(world.dice, column.type)
        column = column if default == "NaN" or column.is_struct else evolve(column, default=default)
    if len(world.model.columns) > 9:
        return None

    def run() -> None:
        default = python_value(column.type, column.default)
        table.update_schema().add_column((column.name,), ARROW[column.type], default_value=default).commit()

    return Act(f"add column {column}", run, lambda m, _: m.add_column(column))


@verb(2)
def rename_columns(world: World) -> Act | None:
    """One gets a new name, or two swap theirs."""
    table = world.ours()
    if world.dice.random() < 0.5 and len(world.model.columns) > 1:
        a, b = world.dice.sample(world.model.columns, 2)
        names = {a.key: b.name, b.key: a.name}
    else:
        column = world.dice.choice(world.model.columns)
        names = {column.key: world.new_column().name}

    def run() -> None:
        update = table.update_schema()
        for key, name in names.items():
            update.rename_column((world.model.column(key).name,), name)
        update.commit()

    said = {world.model.column(k).name: n for k, n in names.items()}
    return Act(f"rename columns {said}", run, lambda m, _: m.rename(names), may_refuse="partition field")


@verb(1)
def promote(world: World) -> Act | None:
    table = world.ours()
    wide = [c for c in world.model.columns if c.type in PROMOTIONS]
    if not wide:
        return None
    column = world.dice.choice(wide)
    wider = PROMOTIONS[column.type]
    return Act(
        f"promote {column.name!r} from {column.type} to {wider}",
        lambda: table.update_schema().update_column((column.name,), wider).commit(),
        lambda m, _: m.change_column(column.key, type=wider),
        may_refuse="partition",
    )


@verb(1)
def drop_column(world: World) -> Act | None:
    table = world.ours()
    rest = world.droppable()
    if len(rest) < 2:
        return None
    column = world.dice.choice(rest)
    return Act(
        f"drop column {column.name!r}",
        lambda: table.update_schema().delete_column((column.name,)).commit(),
        lambda m, _: m.drop_column(column.key),
        may_refuse="partition|sort",
    )


@verb(1)
def move_column(world: World) -> Act | None:
    table, column = world.ours(), world.dice.choice(world.model.columns)

    def after(m: Model, _: Any) -> None:
        m.columns = (column, *(c for c in m.columns if c.key != column.key))

    return Act(
        f"move column {column.name!r} first",
        lambda: table.update_schema().move_first((column.name,)).commit(),
        after,
    )


@verb(2)
def change_spec(world: World) -> Act | None:
    table = world.ours()
    fields = [f.name for f in table.spec().fields if str(f.transform) != "void"]
    if fields and world.dice.random() < 0.5:
        gone = world.dice.choice(fields)
        return Act(
            f"remove partition field {gone!r}",
            lambda: table.update_spec().remove_field(gone).commit(),
            nothing,
        )
    term = random_term(world.dice, world.model.columns)
    if term is None or len(fields) > 2:
        return None
    name = f"p{world.model.next_id}"
    world.model.next_id += 1
    return Act(
        f"add partition field {term} as {name}",
        lambda: table.update_spec().add_field(term.column.name, term.transform, name).commit(),
        nothing,
        may_refuse="already|same|redundant",
    )


@verb(1)
def change_sort_order(world: World) -> Act | None:
    table, column = world.ours(), world.dice.choice(world.model.plain)

    def run() -> None:
        table.update_sort_order().asc(column.name).commit()

    return Act(f"sort by {column.name!r}", run, nothing)


@verb(3)
def set_properties(world: World) -> Act | None:
    table = world.ours()
    key, value = world.dice.choice(SETTINGS)
    if world.dice.random() < 0.25 and key in world.model.properties:
        return Act(
            f"remove property {key}",
            lambda: table.remove_properties(key),
            lambda m, _: m.properties.pop(key),
        )
    return Act(
        f"set property {key}={value}",
        lambda: table.set_properties({key: value}),
        lambda m, _: m.properties.update({key: value}),
    )


MODES = ("copy-on-write", "merge-on-read")
SETTINGS = (
    *(("write.delete.mode", m) for m in MODES),
    *(("write.update.mode", m) for m in MODES),
    *(("write.merge.mode", m) for m in MODES),
    ("commit.manifest.min-count-to-merge", "2"),
    ("commit.manifest.min-count-to-merge", "100"),
    ("commit.manifest-merge.enabled", "false"),
    ("commit.manifest-merge.enabled", "true"),
    ("commit.manifest.target-size-bytes", "4000"),
    ("write.metadata.delete-after-commit.enabled", "true"),
    ("write.metadata.previous-versions-max", "3"),
    ("write.metadata.compression-codec", "gzip"),
    ("write.metadata.metrics.default", "counts"),
    ("write.metadata.metrics.default", "truncate(3)"),
    ("write.metadata.metrics.default", "full"),
    ("write.delete.granularity", "partition"),
    ("write.delete.granularity", "file"),
    ("write.parquet.compression-codec", "snappy"),
)


@verb(1)
def upgrade(world: World) -> Act | None:
    table, version = world.ours(), world.model.format_version + 1
    if version > 3:
        return None

    def after(m: Model, _: Any) -> None:
        m.format_version = version

    return Act(f"upgrade to v{version}", lambda: table.upgrade(version), after)


def _same_rows(world: World, text: str, run: Callable[[], object], may_refuse: str | None = None) -> Act:
    return Act(text, run, lambda m, _: m.replace("main", lambda r: False), may_refuse)


@verb(2)
def compact(world: World) -> Act | None:
    table, branch = world.ours(), world.branch()
    if branch not in world.model.refs:
        return None
    options: dict[str, Any] = world.dice.choice(
        [{"min-input-files": 2}, {"rewrite-all": True}, {"delete-file-threshold": 1}, {"remove-dangling-deletes": True}]
    )
    where = world.filter(branch).sql() if world.dice.random() < 0.3 else None
    return Act(
        f"compact {branch} with {options}: {where}",
        lambda: table.rewrite_data_files(where, options=options, branch=branch),
        lambda m, _: m.replace(branch, lambda r: False),
    )


@verb(1)
def sort_data(world: World) -> Act | None:
    table, column = world.ours(), world.dice.choice(world.model.plain)
    options = {"rewrite-all": True}
    return _same_rows(
        world,
        f"compact, sorted by {column.name!r}",
        lambda: table.rewrite_data_files(strategy="sort", sort_order=_order(column), options=options),
    )


def _order(column: Column) -> list[str]:
    return ['"' + column.name.replace('"', '""') + '"']


@verb(1)
def rewrite_deletes(world: World) -> Act | None:
    table = world.ours()
    return _same_rows(world, "rewrite position delete files", table.rewrite_position_delete_files)


@verb(1)
def remove_dangling(world: World) -> Act | None:
    table = world.ours()
    return _same_rows(world, "remove dangling deletes", table.remove_dangling_deletes)


@verb(2)
def rewrite_manifests(world: World) -> Act | None:
    table, branch = world.ours(), world.branch()
    if branch not in world.model.refs:
        return None
    return Act(
        f"rewrite manifests of {branch}",
        lambda: table.rewrite_manifests(branch=branch),
        lambda m, _: m.replace(branch, lambda r: False),
    )


@verb(1)
def rename_table(world: World) -> Act | None:
    catalog = world.dice.choice(world.catalogs)

    def run() -> None:
        catalog.rename_table(NAME, "ns.other")
        catalog.rename_table("ns.other", NAME)

    return Act("rename the table there and back", run, nothing)


@verb(1)
def undrop(world: World) -> Act | None:
    catalog = world.dice.choice(world.catalogs)

    def run() -> None:
        catalog.drop_table(NAME)
        catalog.undrop_table(NAME)

    return Act("drop and undrop", run, nothing)


@verb(1)
def replace_table(world: World) -> Act | None:
    """Columns that keep their names keep their keys, the others are new."""
    catalog = world.dice.choice(world.catalogs)
    # A column keeps its id, but not its default: whether old rows have the value then depends on who wrote them again.
    gone = [c for c in world.droppable() if c.default is not None or world.dice.random() < 0.4]
    kept = [c for c in world.model.columns if c not in gone]
    if any(c.default is not None for c in kept):
        return None
    made = [*kept, evolve(world.new_column(), name=f"x{world.model.next_key}")]
    schema = world.arrow([], made).schema

    def after(m: Model, _: Any) -> None:
        m.columns = tuple(evolve(c, default=None) if c.key >= m.next_key else c for c in made)
        m.next_key += 1
        m.refs.pop("main", None)

    return Act(f"replace the table: {schema.names}", lambda: catalog.replace_table(NAME, schema), after)


@verb(1)
def statistics(world: World) -> Act | None:
    table = world.ours()
    if "main" not in world.model.refs:
        return None
    return Act("compute partition statistics", table.compute_partition_statistics, nothing, may_refuse="no partitions")


@verb(1)
def forget(world: World) -> Act | None:
    """Bounds of what is deleted go; no plan may miss them."""
    table, column = world.ours(), world.dice.choice(world.model.columns)
    return Act(f"forget {column.name!r}", lambda: table.forget(columns=[column.name]), nothing, may_refuse="partition")


@verb(1)
def checkpoint(world: World) -> Act | None:
    catalog = world.dice.choice(world.catalogs)
    return Act("checkpoint", catalog.checkpoint, nothing)


@verb(2)
def reopen(world: World) -> Act | None:
    which = world.dice.randrange(len(world.catalogs))
    return Act(f"reopen catalog {which}", lambda: world.reopen(which), nothing)


@verb(1)
def lose_cache(world: World) -> Act | None:
    """Nobody remembers anything: all is expanded again from the log and from files."""

    def run() -> None:
        for catalog in world.catalogs:
            catalog.close()
        shutil.rmtree(world.folder / ".icecore", ignore_errors=True)
        for which in range(len(world.catalogs)):
            world.reopen(which)

    return Act("lose the cache", run, nothing)


@verb(1)
def rebuild(world: World) -> Act | None:
    catalog: icecore.Catalog = world.dice.choice(world.catalogs)
    return Act("rebuild", catalog.rebuild, nothing)


@verb(1)
def remove_orphans(world: World) -> Act | None:
    """Files that were written a moment ago count too: whatever is needed must stay."""
    table = world.ours()
    return Act(
        "remove orphan files",
        lambda: table.maintenance.remove_orphan_files(2**42, allow_recent=True),
        nothing,
    )
