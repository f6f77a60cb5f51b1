"""Commits as clients ask for them, in the words of the REST document: updates, and the requirements they rely on."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import orjson
from attrs import define, frozen

from icecore.engine.catalog.catalog_handle import CatalogHandle
from icecore.engine.commit.decide import ChangeMetadata, Command, StaleRemovals
from icecore.engine.commit.given_updates import check_types, with_checked_values
from icecore.engine.common.identifiers import Identifier, identifier_tuple
from icecore.engine.data.pyiceberg_values import is_pyiceberg_value
from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.evolution.create_table import creation_payload
from icecore.engine.joint_commit.joint_commit import CommitTargets, Part
from icecore.engine.joint_commit.joint_tables import NewTable, TableChange, nothing_happens
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import TablePart
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION, TableMetadata
from icecore.engine.spec.updates.metadata_update import AssignUuid, SetLocation, UpgradeFormatVersion
from icecore.engine.spec.updates.read_requirements import read_table_requirements
from icecore.engine.spec.updates.requirement import AssertCreate, TableRequirement
from icecore.engine.spec.updates.table_update import TableUpdate, read_table_updates


@frozen
class CommittedTable:
    """A table as it is after a commit: its metadata, and the file of it, which is None where none was written yet."""

    metadata: TableMetadata
    metadata_location: str | None


def requirements_of(given: Iterable[object]) -> tuple[TableRequirement, ...]:
    """The requirements, of values of ours or of PyIceberg's, or of JSON. Raises ValidationError."""
    return tuple(_read(given, TableRequirement, read_table_requirements))


def updates_of(given: Iterable[object]) -> list[TableUpdate]:
    """The updates, likewise. Raises ValidationError."""
    return with_checked_values(_read(given, TableUpdate, read_table_updates))


def asked_part(
    catalog: CatalogHandle,
    name: Identifier,
    requirements: tuple[TableRequirement, ...],
    updates: list[TableUpdate],
    ended: Callable[[TableState], None] = nothing_happens,
) -> Part:
    """The part of a commit that makes the updates; `ended` is told the state after it.

    Raises ValidationError, NoSuchTableError.
    """
    if AssertCreate() in requirements:
        if len(requirements) > 1:
            raise ValidationError("Invalid create requirements: a table that is to be created has nothing to assert")
        identifier_tuple(name)
        given = next((u.uuid for u in updates if isinstance(u, AssignUuid)), str(uuid.uuid4()))
        unless_told = (
            AssignUuid(given),
            UpgradeFormatVersion(DEFAULT_FORMAT_VERSION),
            SetLocation(catalog.new_location(name, given, None)),
        )
        kinds = {type(u) for u in updates}
        payload = creation_payload(name, [*(u for u in unless_told if type(u) not in kinds), *updates])
        return NewTable(name, ev.table_stream(given), ev.TABLE_CREATED, payload, ended=ended, is_asserted=True)
    repository = catalog._warehouse.repository
    stream = repository.foreign.stream_of(name, repository.models.table_stream)
    part = TablePart(stream, partial(_commands, updates), requirements)
    return _ChangeOfName(name, stream, lambda: part, lambda result: ended(result.state), is_seen=True)


@define
class _ChangeOfName(TableChange):
    """The change of the table that has the name at commit: another one may have got it since the look-up."""

    def prepare(self, desk: CommitTargets) -> None:
        if not self.is_seen:
            self.stream = desk.repository.foreign.stream_of(self.name, desk.repository.models.table_stream)
        super().prepare(desk)

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        if desk.repository.models.find(self.name) != ("table", self.stream):
            raise StaleRemovals
        return super().append(desk, transaction, provenance)


def _commands(updates: list[TableUpdate], state: TableState) -> list[Command]:
    """The updates, and a check of what comes of them."""

    def checked(metadata: TableMetadata) -> list[TableUpdate]:
        check_types(state.metadata, metadata)
        return []

    return [ChangeMetadata(lambda _: updates), ChangeMetadata(checked)]


def _read(given: Iterable[object], kinds: object, read: Callable[[Iterable[Any]], Iterator[Any]]) -> Iterator[Any]:
    """The values, read from JSON where they are not ours. Raises ValidationError for other values."""
    for value in given:
        if is_pyiceberg_value(value):
            yield from read([orjson.loads(value.model_dump_json())])
        elif isinstance(value, Mapping):
            yield from read([dict(value)])
        elif isinstance(value, get_args(kinds)):
            yield value
        else:
            raise ValidationError(f"expected an update or a requirement of a commit, found {value!r}")
