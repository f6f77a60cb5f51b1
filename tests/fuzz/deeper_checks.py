"""Checks that are made now and then: other ways to ask of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import icecore

from .checks import arrow_rows, same
from .filters import Compared
from .model import seen
from .values import canonical
from .world import NAME, World

PLAN = "kept"


def check_deeper(world: World) -> None:
    """One of them. Raises Violation."""
    table = world.dice.choice(world.catalogs).load_table(NAME)
    checks: Sequence[Callable[[World, icecore.Table], None]] = (
        _aggregates,
        _named_plan,
        _moment,
        _appended,
        _changelog,
        _deep_verify,
    )
    world.dice.choice(checks)(world, table)


def _aggregates(world: World, table: icecore.Table) -> None:
    """Counts, least and greatest values, mostly from metadata; of another branch at times."""
    ref = world.dice.choice(world.model.branches)
    if ref not in world.model.refs:
        return
    columns = [c for c in world.model.plain if not c.is_float]
    column = world.dice.choice(columns)
    name = '"' + column.name.replace('"', '""') + '"'
    values = [v for v in (column.of(r) for r in world.model.rows(ref)) if v is not None]
    ordered = sorted(values, key=lambda v: Compared(column, "=", (v,)).ordered(v))
    asked = ["count(*)", f"count({name})"] + ([f"min({name})", f"max({name})"] if column.type != "boolean" else [])
    expected: list[Any] = [len(world.model.rows(ref)), len(values)]
    if column.type != "boolean":
        expected += [ordered[0], ordered[-1]] if ordered else [None, None]
    found = table.scan(ref=ref).aggregate(*asked)
    same(f"{asked} of {ref}", expected, [canonical(v) for v in found.values.values()])


def _named_plan(world: World, table: icecore.Table) -> None:
    """A plan that is kept has the files of one made anew."""
    if PLAN not in table.named_plans():
        table.prefetch(world.filter().sql(), name=PLAN)
    try:
        plan = table.named_plan(PLAN)
    except icecore.engine.errors.ValidationError:  # a column of it is gone
        table.drop_named_plan(PLAN)
        return
    fresh = table.scan(plan.scan.row_filter)
    paths = [[t.file.file_path for t in tasks] for tasks in (fresh.plan_files(), plan.plan_files())]
    same("files of the kept plan", sorted(paths[0]), sorted(paths[1]))
    same("rows of the kept plan", arrow_rows(fresh.to_arrow()), arrow_rows(plan.scan.to_arrow()))


def _moment(world: World, table: icecore.Table) -> None:
    """The log as of a position, where no snapshot that it needs is expired."""
    moments = [m for m in world.moments if m.main is None or not m.main.is_expired]
    if not moments:
        return
    moment = world.dice.choice(moments)
    then = world.dice.choice(world.catalogs).at(moment.position).load_table(NAME)
    rows = moment.main.rows if moment.main is not None else ()
    same(f"rows at position {moment.position}", seen(moment.columns, rows), arrow_rows(then.scan().to_arrow()))


def _appended(world: World, table: icecore.Table) -> None:
    """What came by appends since a snapshot on main."""
    head = world.model.refs.get("main")
    steps = []
    version = head
    while version is not None and version.is_known and not version.is_expired:
        steps.append(version)
        version = version.parent
    if len(steps) < 2:
        return
    back = world.dice.randrange(1, len(steps))
    if any(v.appended is None and len(v.rows) != len(v.parent.rows if v.parent else ()) for v in steps[:back]):
        return
    rows = [r for v in steps[:back] for r in v.appended or ()]
    if any(v.appended is None for v in steps[:back]):
        return
    scan = table.incremental_append_scan(from_snapshot_id_exclusive=steps[back].snapshot_id)
    same(f"rows appended in {back} snapshots", seen(world.model.columns, rows), arrow_rows(scan.to_arrow()))


def _changelog(world: World, table: icecore.Table) -> None:
    """Changes since a snapshot, applied to its rows, give the rows of now."""
    head = world.model.refs.get("main")
    version, back = head, 0
    while version is not None and version.parent is not None and back < 4:
        if not version.is_known or version.is_expired or version.parent.is_expired or not version.parent.is_known:
            return
        version, back = version.parent, back + 1
    if head is None or version is None or version is head:
        return
    scan = table.incremental_changelog_scan(from_snapshot_id_exclusive=version.snapshot_id)
    left = seen(world.model.columns, version.rows)
    for change in scan.to_arrow().to_pylist():
        row = tuple(canonical(change[c.name]) for c in world.model.columns)
        if change["_change_type"] == "INSERT":
            left.append(row)
        else:
            left.remove(row)
    key: Callable[[Any], Any] = repr
    same(f"changes of {back} snapshots", sorted(seen(world.model.columns, head.rows), key=key), sorted(left, key=key))


def _deep_verify(world: World, table: icecore.Table) -> None:
    """Footers, rows, manifests and deletion vectors of all engines are as what lists them says."""
    same("verify, deep", (), world.dice.choice(world.catalogs).verify(deep=True).problems)
