"""Opens a warehouse that something happened to, as the next user would, and says whether all is well."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path

from attrs import frozen
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.log.store import FORGETTING
from icecore.projections.files.file_follower import MaterializationWarning

from .children import FAILED, Outcome, Work, in_child
from .model import Model, difference, full_name, observe
from .operations import Operation

BEFORE, AFTER = "before", "after"


@frozen
class Found:
    """What is there: the model of before or of after the operation, or neither, and what is wrong with it."""

    which: str | None
    problems: tuple[str, ...] = ()


def examine(folder: str, before: Model, operation: Operation, position: int, *, peer: bool = False) -> Found:
    """Opens, heals, verifies, compares, and makes the operation again where it was not made or has a key.

    `position` is where the log ended before the operation. In the end the operation must be there exactly once, as a
    peer reads it too.
    """
    return found_in(in_child(examining(folder, before, operation, position, peer=peer)))


def examining(folder: str, before: Model, operation: Operation, position: int, *, peer: bool = False) -> Work:
    """What `examine` does in a process of its own, where that process has more to do."""
    return lambda say: say("found", _examine(folder, before, operation, position, peer))


def found_in(outcome: Outcome) -> Found:
    """What a process that examined said."""
    found: Found | None = outcome.get("found")
    if found is None:
        return Found(None, (f"can't be examined: {outcome.get(FAILED) or outcome.exit_code}",))
    return found


def _examine(folder: str, before: Model, operation: Operation, position: int, peer: bool) -> Found:
    problems: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", MaterializationWarning)
        with icecore.open(folder, actor="examiner") as catalog:
            problems += leftovers(folder)
            if catalog._warehouse.store.warehouse_value(FORGETTING) is not None:
                problems.append("what was forgotten is not tidied up")
            which = _compare(catalog, before, operation, position, problems)
            problems += [f"verify: {p}" for p in catalog.verify().problems]
            if which is not None and (which == BEFORE or operation.key is not None):
                _again(catalog, operation, position, problems)
            if peer:
                catalog.materialize()
                problems += peer_problems(folder, operation.after)
                problems += [f"verify: {p}" for p in catalog.verify().problems]
    return Found(which, tuple(problems))


def _compare(
    catalog: icecore.Catalog, before: Model, operation: Operation, position: int, problems: list[str]
) -> str | None:
    found, added = observe(catalog), catalog.position - position
    as_before, as_after = difference(before, found), difference(operation.after, found)
    if not as_after and added in operation.events:
        return AFTER
    if not as_before and added == 0:
        return BEFORE
    problems.append(f"{added} events more; not as before ({as_before}), nor as after ({as_after})")
    return None


def _again(catalog: icecore.Catalog, operation: Operation, position: int, problems: list[str]) -> None:
    """Makes the operation once more; where the log stays as it is, so does all that was looked at already."""
    ended = catalog.position
    operation.run(catalog)
    if catalog.position - position not in operation.events:
        problems.append(f"made again: {catalog.position - position} events more, {operation.events} expected")
    if catalog.position == ended:
        return
    if text := difference(operation.after, observe(catalog)):
        problems.append(f"made again: {text}")
    problems += [f"made again: verify: {p}" for p in catalog.verify().problems]


def leftovers(folder: str) -> list[str]:
    """The temporary files that nobody took away."""
    return [f"left over: {p.relative_to(folder)}" for p in Path(folder).rglob(".*.tmp")]


def peer_problems(folder: str, expected: Model) -> list[str]:
    """What PyIceberg reads otherwise, through its `sql` catalog over the log's own file."""
    peer = SqlCatalog("icecore", uri=f"sqlite:///{folder}/icecore.db", warehouse=folder)
    out = []
    try:
        for name, table in expected.tables:
            ids = sorted(peer.load_table(full_name(name)).scan().to_arrow()["id"].to_pylist())
            if tuple(ids) != table.ids:
                out.append(f"PyIceberg reads {ids} of {name}, expected {list(table.ids)}")
    finally:
        peer.close()
    return out


def log_position(folder: str) -> int:
    """Where the log ends, without the engine's help."""
    connection = sqlite3.connect(f"file:{folder}/icecore.db?mode=ro", uri=True)
    try:
        (position,) = connection.execute("SELECT coalesce(max(position), 0) FROM event").fetchone()
        return int(position)
    finally:
        connection.close()
