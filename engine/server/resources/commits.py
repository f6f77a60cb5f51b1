"""Commits to one table or several. Spec: the REST document's updateTable and commitTransaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve

from icecore.engine.catalog.clients.client_commits import asked_part, updates_of
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.json_reader import get, get_list
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.events.provenance import engine_named, provenance
from icecore.engine.joint_commit.joint_commit import Part, commit_jointly, dry_run_jointly
from icecore.engine.joint_commit.joint_tables import nothing_happens
from icecore.engine.metadata.fold import TableState
from icecore.engine.server.auth.grants import Level
from icecore.engine.server.resources.loaded import state_committed, table_again
from icecore.engine.server.wire.answer import NO_CONTENT, Answer, json_answer
from icecore.engine.server.wire.call import Call, levels, updates_asked
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.refusal import Refusal
from icecore.engine.spec.updates.read_requirements import read_table_requirements
from icecore.engine.spec.updates.requirement import AssertCreate
from icecore.engine.spec.updates.table_update import AddSnapshot, TableUpdate

_LONGEST_NAME = 200
"""The longest name of an engine in the log, as for a `User-Agent`."""


def update_table(call: Call) -> Answer:
    """Commits updates to a table where its requirements hold; `assert-create` makes a staged table.

    With the header `X-Icecore-Dry-Run: true` nothing is stored, and the answer says what the commit would be.
    """
    after: list[TableState] = []
    updates = _updates(call.body)
    outcome = _commit(call, [table_part(call, call.table, call.body, updates, after.append)], updates)
    return outcome or state_committed(call, after[-1] if after else call.catalog.load_table(call.table).state)


def commit_transaction(call: Call) -> Answer:
    """Commits updates to several tables: all of them or none. Raises ValidationError."""
    changes = get_list(call.body, "table-changes", "the request")
    if not changes:
        raise ValidationError("a transaction changes at least one table")
    parts: dict[Identifier, Part] = {}
    updates: list[TableUpdate] = []
    for change in changes:
        identifier = get(change, "identifier", dict, "a table change")
        name = (*levels(identifier), get(identifier, "name", str, "identifier"))
        if name in parts:
            raise ValidationError(f"a transaction has one change of each table, found two of {name_text(name)!r}")
        own = _updates(change)
        parts[name] = table_part(call, name, change, own)
        updates += own
    return _commit(call, list(parts.values()), updates) or NO_CONTENT


def table_part(
    call: Call,
    name: Identifier,
    change: Mapping[str, Any],
    updates: list[TableUpdate],
    ended: Callable[[TableState], None] = nothing_happens,
) -> Part:
    """The part of a commit that a `CommitTableRequest` asks for; `ended` is told the state after it.

    Raises ValidationError, NoSuchTableError.
    """
    requirements = tuple(read_table_requirements(get_list(change, "requirements", "the request", [])))
    if requirements == (AssertCreate(),):
        call.make_namespace(name[:-1])
    return asked_part(call.catalog, name, requirements, updates, ended)


def _updates(change: Mapping[str, Any]) -> list[TableUpdate]:
    return updates_of(updates_asked(change))


def _commit(call: Call, parts: list[Part], updates: Iterable[TableUpdate]) -> Answer | None:
    """Makes the commit, and returns None; for a dry run the answer that tells what the commit would be."""
    warehouse = call.catalog._warehouse
    warehouse.store.check_writable()
    who = provenance(call.catalog.actor)
    if (engine := _engine(updates)) is not None:
        who = evolve(who, engine=f"{engine} ({who.engine})")
    if call.is_dry_run:
        return _told(dry_run_jointly(warehouse.targets, parts, who))
    commit_jointly(warehouse.targets, parts, who)
    return None


def _engine(updates: Iterable[TableUpdate]) -> str | None:
    """The engine that the new snapshots name: the `User-Agent` of Java's clients tells only their HTTP library."""
    snapshots = (update.snapshot for update in updates if isinstance(update, AddSnapshot))
    named = (engine_named(snapshot.summary or {}) for snapshot in snapshots)
    return next((engine[:_LONGEST_NAME] for engine in named if engine), None)


def _told(outcome: CatalogDryRun) -> Answer:
    """A dry run's outcome: each event that would be made, or why it would be refused."""
    events = [
        {
            "identifier": {"namespace": part.identifier[:-1], "name": part.identifier[-1]},
            "event": part.kind,
            "payload": part.payload,
            "added-files": part.added_files,
            "removed-files": part.removed_files,
            "totals": part.totals,
        }
        for part in outcome.parts
        if part.kind
    ]
    return json_answer({"dry-run": True, "events": events, "conflicts": outcome.conflicts})


ENDPOINTS = (
    Endpoint(
        "POST",
        "/namespaces/{namespace}/tables/{table}",
        update_table,
        is_write=True,
        has_dry_run=True,
        asks=Level.WRITE,
        again=table_again,
        refusal=Refusal.COMMIT,
    ),
    Endpoint(
        "POST",
        "/transactions/commit",
        commit_transaction,
        is_write=True,
        has_dry_run=True,
        asks=Level.WRITE,
        refusal=Refusal.COMMIT,
    ),
)
