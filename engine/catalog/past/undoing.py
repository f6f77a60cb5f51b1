"""The calls of a catalog that undo commits: revert, undo, restore. Each is a new commit; history is never rewritten.

With `dry_run` nothing is stored, and the result says what the commit would be. Under the `idempotency_key` of a call
that was made already none is made again, and the position is that of the first time.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, Unpack, overload

from icecore.engine.catalog.catalog_handle import CatalogHandle, once
from icecore.engine.common.identifiers import (
    IdentifierLike,
    checked_number,
    identifier_tuple,
    namespace_tuple,
    whole_number,
)
from icecore.engine.errors import ValidationError
from icecore.engine.events.provenance import provenance
from icecore.engine.expression.timestamps import to_epoch_ms

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.log.store import EventStore
    from icecore.engine.table.commit_options import KeyedCommit

Moment = int | str | dt.datetime
"""A position of the log, or a time as a datetime or ISO 8601 text."""


def position_of(store: EventStore, moment: Moment, what: str) -> int:
    """The position itself, or the last one at or before a time. Raises ValidationError."""
    position = whole_number(moment)
    return store.position_at(to_epoch_ms(moment, what)) if position is None else position


@overload
def restore(
    catalog: CatalogHandle,
    to: Moment,
    *,
    table: IdentifierLike | None = None,
    namespace: IdentifierLike | None = None,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> int: ...


@overload
def restore(
    catalog: CatalogHandle,
    to: Moment,
    *,
    table: IdentifierLike | None = None,
    namespace: IdentifierLike | None = None,
    dry_run: bool,
    **options: Unpack[KeyedCommit],
) -> int | CatalogDryRun: ...


def restore(
    catalog: CatalogHandle,
    to: Moment,
    *,
    table: IdentifierLike | None = None,
    namespace: IdentifierLike | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> int | CatalogDryRun:
    """Makes a table (or view), a namespace or, without both, everything again what it was at a position or a time.

    It is one new commit, whose last position is returned. Names, schema, spec, sort order, location, properties, refs
    and with them rows are as `catalog.at(to)` has them; dropped tables come back, and those that did not exist then are
    dropped, so that they can be undropped. Later snapshots stay until they expire, and so do format versions. All or
    nothing. Raises CommitConflictError, naming who expired it, where a snapshot of then is gone, ValidationError where
    a table was purged or there is no such position, NoSuchTableError, NoSuchNamespaceError, TableAlreadyExistsError.
    """
    from icecore.engine.joint_commit import joint_restore

    if table is not None and namespace is not None:
        raise ValidationError("restore() takes a table or a namespace")
    name = None if table is None else identifier_tuple(table)
    within = None if namespace is None else namespace_tuple(namespace)

    def make() -> int | CatalogDryRun:
        who = provenance(catalog.actor, message=message, author=author)
        at = position_of(catalog._warehouse.store, to, "to")
        return joint_restore.restore(catalog._warehouse.targets, at, who, name=name, namespace=within, dry_run=dry_run)

    number = whole_number(to)
    asked = {"to": to if number is None else number, "table": name, "namespace": within}
    return once(catalog, idempotency_key, "restore", asked, make, int, dry_run=dry_run)


@overload
def revert(
    catalog: CatalogHandle,
    position: int,
    *,
    through: int | None = None,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> int: ...


@overload
def revert(
    catalog: CatalogHandle, position: int, *, through: int | None = None, dry_run: bool, **options: Unpack[KeyedCommit]
) -> int | CatalogDryRun: ...


def revert(
    catalog: CatalogHandle,
    position: int,
    *,
    through: int | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> int | CatalogDryRun:
    """Undoes the commit at a position, or all from it `through` another, by a new one, whose last position is returned.

    Its message says which by default. Properties, refs, the current schema, spec and sort order are set back where they
    are still as the commits set them; files that they added are removed where all are still live, files that they
    removed are added again, delete files and deletion vectors too; renames, drops and creates are undone. Of several
    commits their net change is undone. All or nothing. Raises CommitConflictError that names the later commits in
    conflict, ValidationError for what can't be undone: format upgrades, expired snapshots, deleted files.
    """
    from icecore.engine.joint_commit import joint_revert

    position = checked_number(position, "position")
    through = None if through is None else checked_number(through, "through")

    def make() -> int | CatalogDryRun:
        who = provenance(catalog.actor, message=message, author=author)
        return joint_revert.revert(catalog._warehouse.targets, position, who, through=through, dry_run=dry_run)

    asked = {"position": position, "through": through}
    return once(catalog, idempotency_key, "revert", asked, make, int, dry_run=dry_run)


@overload
def undo(
    catalog: CatalogHandle,
    identifier: IdentifierLike | None = None,
    *,
    actor: str | None = None,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> int: ...


@overload
def undo(
    catalog: CatalogHandle,
    identifier: IdentifierLike | None = None,
    *,
    actor: str | None = None,
    dry_run: bool,
    **options: Unpack[KeyedCommit],
) -> int | CatalogDryRun: ...


def undo(
    catalog: CatalogHandle,
    identifier: IdentifierLike | None = None,
    *,
    actor: str | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> int | CatalogDryRun:
    """Undoes the last commit of an actor, to one table or view or to any, by a new commit; returns its last position.

    Without an actor it is the `author`'s, or else the catalog's actor's. A commit over several tables is undone as a
    whole. Commits that were undone already are passed over, and so are reverts: a second undo undoes the commit before.
    Raises what `revert` raises, ValidationError where the actor has no commit, NoSuchTableError.
    """
    from icecore.engine.joint_commit import joint_revert
    from icecore.engine.joint_commit.last_commit import last_commit

    name = None if identifier is None else identifier_tuple(identifier)
    warehouse = catalog._warehouse
    of = str(provenance(catalog.actor, author=author).actor) if actor is None else actor

    def make() -> int | CatalogDryRun:
        who = provenance(catalog.actor, message=message, author=author)
        warehouse.repository.check_writable()
        warehouse.repository.foreign.adopt_all_if_changed()
        stream = None if name is None else warehouse.models.stream(name)
        events = last_commit(warehouse.store, of, stream)
        first, last = events[0].position, events[-1].position
        return joint_revert.revert(warehouse.targets, first, who, through=last, dry_run=dry_run)

    asked = {"name": name, "actor": of}
    return once(catalog, idempotency_key, "undo", asked, make, int, dry_run=dry_run)
