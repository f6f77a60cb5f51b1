"""Commits of a handle, or a transaction, that was begun before another commit: nothing of either is lost."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.exceptions import CommitFailedException

import icecore

from .filters import Row
from .verbs import Act, verb
from .world import NAME, World

Rows = tuple[Row, ...]


@verb(2)
def between(world: World) -> Act | None:
    """Somebody appends while a transaction of ours is open. It is planned again: it deletes from those rows too."""
    table, rows, theirs = world.ours(), world.rows(), world.rows()
    where, (who, append) = world.filter(), _somebody(world, theirs)

    def run() -> None:
        with table.transaction() as change:
            change.delete(where.sql())
            change.append(world.arrow(rows))
            append()

    left = [*(r for r in (*world.model.rows(), *theirs) if not where.holds(r)), *rows]
    return Act(
        f"transaction: delete {where.sql()}, append {len(rows)} rows; {who} appends {len(theirs)} in between",
        run,
        lambda m, _: m.commit("main", left),
    )


@verb(2)
def ours(world: World) -> Act | None:
    """A handle of ours that does not know of another's append."""
    table, rows, theirs = world.ours(), world.rows(), world.rows()
    where, (who, append) = world.filter(), _somebody(world, theirs)
    is_overwrite = world.dice.random() < 0.5

    def run() -> None:
        append()
        if is_overwrite:
            table.overwrite(world.arrow(rows), where.sql())
        else:
            table.append(world.arrow(rows))

    now = (*world.model.rows(), *theirs)
    left = [*(r for r in now if not (is_overwrite and where.holds(r))), *rows]
    done = f"overwrites {where.sql()} with" if is_overwrite else "appends"
    return Act(
        f"{who} appends {len(theirs)} rows, an old handle {done} {len(rows)}", run, lambda m, _: m.commit("main", left)
    )


@verb(2)
def java(world: World) -> Act | None:
    """A table that Java has loaded before we committed: it tries again by itself."""
    table, rows, theirs = world.ours(), world.rows(), world.rows()
    where, fast = world.filter(), world.dice.random() < 0.5

    def run() -> None:
        world.java("hold")
        table.overwrite(world.arrow(rows), where.sql())
        world.java("append", rows=world.lists(theirs), branch="main", fast=fast, held=True)

    left = [*(r for r in world.model.rows() if not where.holds(r)), *rows, *theirs]
    return Act(
        f"we overwrite {where.sql()} with {len(rows)} rows, Java appends {len(theirs)} to what it had loaded",
        run,
        lambda m, _: m.commit("main", left),
    )


@verb(1)
def pyiceberg(world: World) -> Act | None:
    """A table that PyIceberg has loaded before we committed: it is refused, loads again and tries again."""
    if world.model.format_version > 2 or world.is_file_system or any(s.fields for s in world.ours().specs().values()):
        return None
    table, rows, theirs = world.ours(), world.rows(), world.rows()

    def run() -> None:
        peer = world.theirs()
        table.append(world.arrow(rows))
        try:
            peer.append(world.arrow(theirs))
        except CommitFailedException:
            peer.refresh()
            peer.append(world.arrow(theirs))

    return Act(
        f"we append {len(rows)} rows, PyIceberg {len(theirs)} to what it had loaded",
        run,
        lambda m, _: m.commit("main", [*m.rows(), *rows, *theirs]),
    )


def _somebody(world: World, rows: Rows) -> tuple[str, Callable[[], object]]:
    """Who appends rows to main, and how."""
    if world.dice.random() < 0.5:
        return "Java", lambda: world.java("append", rows=world.lists(rows), branch="main", fast=False)
    other: icecore.Table = world.dice.choice(world.catalogs).load_table(NAME)
    return "another handle", lambda: other.append(world.arrow(rows))
