"""The builder of view metadata, which applies updates in the vocabulary of the REST catalog. Spec: View spec (V1).

The builder gives each accepted update back with the ids that it assigned (`changes`); those, applied to the same
metadata at the same time, are accepted as they are and give the same result. That is what an event keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from attrs import evolve

from icecore.engine.errors import CommitFailedError, InvalidViewError, UnsupportedFormatVersionError
from icecore.engine.properties.table_properties import (
    DROP_DIALECT_ALLOWED,
    VIEW_HISTORY_SIZE,
    VIEW_METADATA_COMPRESSION,
)
from icecore.engine.spec.schema import INITIAL_SCHEMA_ID, Schema
from icecore.engine.spec.updates.metadata_update import (
    LAST_ADDED,
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.requirement import AssertCreate, AssertViewUuid, ViewRequirement
from icecore.engine.spec.updates.view_update import AddViewVersion, SetCurrentViewVersion, ViewUpdate
from icecore.engine.spec.view import VIEW_FORMAT_VERSION, ViewHistoryEntry, ViewMetadata, ViewVersion


class ViewBuilder:
    """View metadata under construction, for one commit. Raises InvalidViewError where the spec forbids a change."""

    def __init__(self, base: ViewMetadata | None, timestamp_ms: int) -> None:
        """`timestamp_ms` is when a version that was made before becomes the current one again."""
        self.changes: list[ViewUpdate] = []
        self._base = base
        self._timestamp_ms = timestamp_ms
        self._uuid = base.view_uuid if base else None
        self._format_version = base.format_version if base else VIEW_FORMAT_VERSION
        self._location = base.location if base else None
        self._schemas = {s.schema_id: s for s in base.schemas} if base else {}
        self._versions = {v.version_id: v for v in base.versions} if base else {}
        self._current_version_id = base.current_version_id if base else LAST_ADDED
        self._log = base.version_log if base else ()
        self._properties = dict(base.properties) if base else {}
        self._last_schema_id: int | None = None
        self._last_version_id: int | None = None
        # The ids that the commit gave, with those that its parts got: where it names the former it means its own part.
        self._schema_ids: dict[int, int] = {}
        self._version_ids: dict[int, int] = {}
        self._added_versions: set[int] = set()
        self._log_entry: ViewHistoryEntry | None = None

    def apply(self, updates: Iterable[ViewUpdate]) -> ViewBuilder:
        """Applies updates in order; those that change nothing leave no trace in `changes`. Raises InvalidViewError."""
        for update in updates:
            self._apply(update)
        return self

    def build(self, *, may_drop_dialects: bool = False) -> ViewMetadata:
        """The metadata after the commit. Raises InvalidViewError where something is missing or may not be dropped."""
        if self._uuid is None:
            raise InvalidViewError("a view needs a UUID")
        if self._location is None:
            raise InvalidViewError("a view needs a location")
        if not self._versions:
            raise InvalidViewError("a view needs a version")
        VIEW_METADATA_COMPRESSION.of(self._properties)
        if not may_drop_dialects:
            self._check_dialects()
        versions, log = self._retained()
        return ViewMetadata(
            view_uuid=self._uuid,
            location=self._location,
            schemas=tuple(self._schemas.values()),
            current_version_id=self._current_version_id,
            versions=versions,
            version_log=log,
            properties=dict(self._properties),
            format_version=self._format_version,
            extra=dict(self._base.extra) if self._base else {},
        )

    def _apply(self, update: ViewUpdate) -> None:
        match update:
            case AssignUuid():
                self._assign_uuid(update)
            case UpgradeFormatVersion():
                self._upgrade_format_version(update.format_version)
            case AddSchema():
                self._add_schema(update.schema)
            case SetLocation():
                self._set_location(update)
            case SetProperties():
                self._set_properties(update)
            case RemoveProperties():
                self._remove_properties(update)
            case AddViewVersion():
                self._add_view_version(update.view_version)
            case SetCurrentViewVersion():
                self._set_current_view_version(update.view_version_id)
            case _:
                assert_never(update)

    def _assign_uuid(self, update: AssignUuid) -> None:
        if self._uuid not in (None, update.uuid):
            raise InvalidViewError(f"the view's UUID is {self._uuid}, it can't become {update.uuid} (V1)")
        if self._uuid is None:
            self._uuid = update.uuid
            self.changes.append(update)

    def _upgrade_format_version(self, version: int) -> None:
        if version < self._format_version:
            raise InvalidViewError(f"can't downgrade a view from format version {self._format_version} to {version}")
        if version > VIEW_FORMAT_VERSION:
            raise UnsupportedFormatVersionError(f"can't upgrade a view to format version {version}; supported is 1")

    def _add_schema(self, schema: Schema) -> None:
        known = next((s for s in self._schemas.values() if s.same_fields(schema)), None)
        if known is None:
            known = evolve(schema, schema_id=max(self._schemas, default=INITIAL_SCHEMA_ID - 1) + 1)
            self._schemas[known.schema_id] = known
            self.changes.append(AddSchema(known))
        self._last_schema_id = known.schema_id
        self._schema_ids.setdefault(schema.schema_id, known.schema_id)

    def _set_location(self, update: SetLocation) -> None:
        if update.location != self._location:
            self._location = update.location
            self.changes.append(update)

    def _set_properties(self, update: SetProperties) -> None:
        if any(self._properties.get(k) != v for k, v in update.updates.items()):
            self._properties.update(update.updates)
            self.changes.append(update)

    def _remove_properties(self, update: RemoveProperties) -> None:
        removals = [k for k in update.removals if k in self._properties]
        for k in removals:
            del self._properties[k]
        if removals:
            self.changes.append(RemoveProperties(tuple(sorted(removals))))

    def _add_view_version(self, given: ViewVersion) -> None:
        version = evolve(given, schema_id=self._known_schema_id(given.schema_id))
        same = next((v for v in self._versions.values() if _same(v, version)), None)
        if same is None:
            same = evolve(version, version_id=max(version.version_id, max(self._versions, default=0) + 1))
            _check_one_query_per_dialect(same)
            self._versions[same.version_id] = same
            self._added_versions.add(same.version_id)
            self.changes.append(AddViewVersion(same))
        self._last_version_id = same.version_id
        self._version_ids.setdefault(given.version_id, same.version_id)

    def _known_schema_id(self, schema_id: int) -> int:
        if schema_id == LAST_ADDED:
            if self._last_schema_id is None:
                raise InvalidViewError("Cannot set last added schema: no schema has been added in this commit")
            return self._last_schema_id
        schema_id = self._schema_ids.get(schema_id, schema_id)
        if schema_id not in self._schemas:
            raise InvalidViewError(f"a view version names schema {schema_id}; the view has {sorted(self._schemas)}")
        return schema_id

    def _set_current_view_version(self, version_id: int) -> None:
        if version_id == LAST_ADDED:
            if self._last_version_id is None:
                raise InvalidViewError("Cannot set last version id: no version has been added in this commit")
            version_id = self._last_version_id
        else:
            version_id = self._version_ids.get(version_id, version_id)
        version = self._versions.get(version_id)
        if version is None:
            raise InvalidViewError(f"there is no view version {version_id}; the view has {sorted(self._versions)}")
        if version_id == self._current_version_id:
            return
        self._current_version_id = version_id
        self.changes.append(SetCurrentViewVersion(version_id))
        # A version made in this commit was made when it says; one of an earlier commit becomes current again now.
        at = version.timestamp_ms if version_id in self._added_versions else self._timestamp_ms
        self._log_entry = ViewHistoryEntry(at, version_id)

    # Rules over the whole commit

    def _check_dialects(self) -> None:
        if self._base is None or DROP_DIALECT_ALLOWED.of(self._properties):
            return
        before = self._base.current_version().dialects
        after = self._versions[self._current_version_id].dialects
        if lost := sorted(before - after):
            raise InvalidViewError(
                f"the view would lose its SQL for {', '.join(lost)}: it has {sorted(before)}, the new version "
                f"{sorted(after)}; give all of them, or set {DROP_DIALECT_ALLOWED.name}=true"
            )

    def _retained(self) -> tuple[tuple[ViewVersion, ...], tuple[ViewHistoryEntry, ...]]:
        """Versions and log cut to the history size: never what this commit added, nor the current version."""
        log = self._log if self._log_entry is None else (*self._log, self._log_entry)
        current = self._current_version_id
        keep = max(VIEW_HISTORY_SIZE.of(self._properties), len(self._added_versions | {current}))
        if len(self._versions) <= keep:
            return tuple(self._versions.values()), log
        ids = retained_ids(self._versions, keep, current)
        return tuple(v for i, v in self._versions.items() if i in ids), retained_log(log, ids)


def retained_ids(version_ids: Iterable[int], keep: int, current: int) -> frozenset[int]:
    """The current version and the newest others, `keep` in all."""
    others = sorted((i for i in version_ids if i != current), reverse=True)
    return frozenset((current, *others[: keep - 1]))


def retained_log(log: Iterable[ViewHistoryEntry], ids: frozenset[int]) -> tuple[ViewHistoryEntry, ...]:
    """The log after its last entry of a version that is gone: the part before it has a gap, so it says nothing."""
    kept: list[ViewHistoryEntry] = []
    for entry in log:
        if entry.version_id in ids:
            kept.append(entry)
        else:
            kept.clear()
    return tuple(kept)


def check_view_requirements(metadata: ViewMetadata | None, requirements: Iterable[ViewRequirement]) -> None:
    """Raises CommitFailedError for the first requirement that is not met."""
    for requirement in requirements:
        match requirement:
            case AssertCreate():
                if metadata is not None:
                    raise CommitFailedError("Requirement failed: view already exists")
            case AssertViewUuid(uuid=expected):
                found = None if metadata is None else metadata.view_uuid
                if (found or "").lower() != (expected or "").lower():
                    raise CommitFailedError(
                        f"Requirement failed: view UUID does not match: expected {found} != {expected}"
                    )
            case _:
                assert_never(requirement)


def _same(one: ViewVersion, other: ViewVersion) -> bool:
    """Whether two versions differ at most in id and time, so that the older stands for both."""
    return evolve(one, version_id=other.version_id, timestamp_ms=other.timestamp_ms) == other


def _check_one_query_per_dialect(version: ViewVersion) -> None:
    seen: set[str] = set()
    for r in version.representations:
        if r.dialect is not None:
            if r.dialect.lower() in seen:
                raise InvalidViewError(
                    f"Invalid view version: Cannot add multiple queries for dialect {r.dialect.lower()} (V1)"
                )
            seen.add(r.dialect.lower())
