"""Our verbs about the log itself: undoing, archives, files written by hand, names."""

from __future__ import annotations

from typing import Any

import icecore

from .model import Model
from .verbs import Act, nothing, verb
from .world import NAME, World


@verb(3)
def revert(world: World) -> Act | None:
    """One of the last changes of rows that were ours alone."""
    if not world.changes:
        return None
    change = world.dice.choice(world.changes[-4:])
    catalog = world.dice.choice(world.catalogs)
    branch = change.branch
    if branch not in world.model.refs:
        return None

    def after(m: Model, _: Any) -> None:
        m.commit(branch, change.undone(m.rows(branch)))

    # What is no more as the commit left it, or was deleted by delete files, has no way back.
    cant = "CommitConflictError|can't be reverted|delete files|expired|nothing to undo|DuplicateFile"
    return Act(f"revert position {change.position}, of {branch}", lambda: catalog.revert(change.position), after, cant)


@verb(1)
def revert_columns(world: World) -> Act | None:
    """The last event, where it changed columns only."""
    if len(world.moments) < 2:
        return None
    before, last = world.moments[-2:]
    same = before.refs == last.refs and before.properties == last.properties
    if last.position != before.position + 1 or before.columns == last.columns or not same or not world.is_ours:
        return None
    catalog = world.dice.choice(world.catalogs)

    def after(m: Model, _: Any) -> None:
        m.columns = before.columns

    cant = "narrow|promot|can't be reverted|CommitConflictError"
    return Act(f"revert the columns of position {last.position}", lambda: catalog.revert(last.position), after, cant)


@verb(1)
def archive(world: World) -> Act | None:
    catalog = world.dice.choice(world.catalogs)
    before = max(2, catalog.position - world.dice.randint(0, 10))
    return Act(
        f"archive before {before}", lambda: catalog.archive(before=before), nothing, may_refuse="nothing|no event"
    )


@verb(1)
def by_hand(world: World) -> Act | None:
    """Several commits whose files are written at once at the end."""
    catalog = world.dice.choice(world.catalogs)
    table, rows = catalog.load_table(NAME), world.rows()
    where = world.filter()

    def run() -> None:
        table.set_properties({"icecore.materialize": "manual"})
        table.append(world.arrow(rows))
        table.delete(where.sql())
        table.remove_properties("icecore.materialize")
        catalog.materialize(NAME)

    return Act(
        f"by hand: append {len(rows)} rows, delete {where.sql()}",
        run,
        lambda m, _: m.commit("main", [r for r in (*m.rows(), *rows) if not where.holds(r)]),
    )


@verb(1)
def theirs_dropped(world: World) -> Act | None:
    """Another engine drops the table, and we take that back."""
    if world.is_file_system:
        return None
    catalog: icecore.Catalog = world.dice.choice(world.catalogs)
    is_java = world.dice.random() < 0.5

    def run() -> None:
        if is_java:
            world.java("drop")
        else:
            world.theirs().catalog.drop_table(NAME)
        catalog.undrop_table(NAME)

    return Act(f"{'Java' if is_java else 'PyIceberg'} drops it, we undrop it", run, nothing)


@verb(1)
def theirs_renamed(world: World) -> Act | None:
    """Another engine renames the table, and we give it its name again."""
    if world.is_file_system:
        return None
    catalog: icecore.Catalog = world.dice.choice(world.catalogs)
    is_java = world.dice.random() < 0.5

    def run() -> None:
        if is_java:
            world.java("rename", to="ns.other")
        else:
            world.theirs().catalog.rename_table(NAME, "ns.other")
        catalog.rename_table("ns.other", NAME)

    return Act(f"{'Java' if is_java else 'PyIceberg'} renames it, we rename it back", run, nothing)
