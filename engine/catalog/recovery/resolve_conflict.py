"""The resolution of a conflict with another engine's commit that does not follow the log; both stay in the log."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, evolve, frozen

from icecore.engine.common.compressed_json import MOST_BYTES_OF_METADATA
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import (
    CorruptFileError,
    ForbiddenLocationError,
    ForeignCommitError,
    IcecoreError,
    MissingFileError,
    ValidationError,
    name_text,
)
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance, is_view_stream
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_commits import is_same_table, next_version_file, unfinished_commit
from icecore.engine.foreign.foreign_metadata import Chain, ForeignFile, chain_from, read_foreign
from icecore.engine.foreign.register import metadata_version
from icecore.engine.joint_commit.joint_commit import CommitTargets
from icecore.engine.log.store import MODELS, WriteTransaction
from icecore.engine.metadata.fold import TableState, is_file_system
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.retry_policy import RetryPolicy
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.metadata_update import RemoveProperties, SetLocation, SetProperties
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.metadata_cleanup import let_go
from icecore.projections.files.version_claims import Claim

LOG, FOREIGN = "log", "foreign"
KEEPS = (LOG, FOREIGN)


@frozen
class _Theirs:
    """The other engine's commit: its location, and the chain of files up to it, None where it can't be adopted."""

    location: str
    through_row: bool
    chain: Chain | None
    why_not: str | None


def resolution(repository: Repository, stream: str, keep: str) -> Resolution:
    """The part of a commit that ends a conflict with another engine's commit.

    `foreign` makes theirs the current state; commits of the log that were not published stay in it. `log` adopts theirs
    as an event first, where it can be read, then publishes the log's own state over it. Raises ValidationError for
    another word, and for a view.
    """
    if keep not in KEEPS:
        raise ValidationError(f"keep is {LOG!r} or {FOREIGN!r}, found {keep!r}")
    if is_view_stream(stream):
        raise ValidationError("a view's conflict can't be resolved: replace or drop the view")
    return Resolution(repository.state(stream).identifier, stream, keep)


@define
class Resolution:
    """The end of a conflict; its events are those that adopt theirs, and that of the log's own state."""

    name: Identifier
    stream: str
    keep: str
    _adoption: AdoptionRun | None = None

    def retry_policy(self, desk: CommitTargets) -> RetryPolicy:
        """No retry: what it raises is the conflict itself."""
        return RetryPolicy(retries=0)

    def answered_by(self, event: Event) -> bool:
        """Whether an event is of an earlier call: never, as there is no conflict any more."""
        return False

    def prepare(self, desk: CommitTargets) -> None:
        """Looks at both sides. Raises ValidationError where there is no conflict."""
        try:
            desk.repository.foreign.adopt_stream(self.stream)
        except ForeignCommitError:
            return
        raise ValidationError(f"{name_text(self.name)}: there is no conflict to resolve")

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        """Appends the events. Raises ForeignCommitError where theirs can't be the table's state, StorageError."""
        repository, before = desk.repository, len(transaction.events)
        self._adoption = AdoptionRun(repository.foreign.context)
        self._adoption.begin(transaction)
        _Resolving(repository, self._adoption, repository.state(self.stream), provenance).run(self.keep)
        return transaction.events[before:]

    def follow(self, desk: CommitTargets) -> None:
        """Writes the files of the table, after the commit."""
        if self._adoption is not None:
            self._adoption.finish()


class _Resolving:
    def __init__(
        self, repository: Repository, adoption: AdoptionRun, state: TableState, provenance: Provenance
    ) -> None:
        self._repository = repository
        self._adoption = adoption
        self._ours = state
        self._provenance = provenance
        self._storage = adoption.context.storage_of(state)
        head = repository.store.row(MODELS, "get_head", stream=state.stream)
        assert head is not None, "a stream with a state has a head"
        self._published_location: str | None = head["metadata_location"]
        published = repository.states.state_at_version(state.stream, head["materialized_version"])
        self._published: TableMetadata = (published or state).metadata

    def run(self, keep: str) -> None:
        theirs = self._theirs()
        if keep == FOREIGN:
            if theirs.chain is None:
                raise ForeignCommitError(f"{name_text(self._ours.identifier)}: {theirs.why_not}")
            # A commit of ours that was cut off stands with what was built on it, so it is not made again.
            cut_off = self._repository.materializer.claim_of(self._ours.stream)
            self._repository.files.advance(self._adopt(theirs.chain, cut_off))
            return
        before = self._ours
        if theirs.chain is not None:
            before = self._adopt(theirs.chain)
            self._repository.files.advance(before)
        merged = self._merged(before.metadata)
        payload: dict[str, Any] = {"metadata": merged.to_dict(), **self._let_go(before, merged)}
        if theirs.chain is None:
            payload["over"] = self._record(theirs.location)
            self._take_row_back(theirs)
        event, after = self._adoption.append(before.stream, ev.TABLE_RESTORED, payload, self._provenance)
        assert after is not None, "a table's event leads to a state"
        if is_file_system(after):
            self._repository.files.publish(after, event, before)
        else:
            self._repository.files.advance(after)

    def _let_go(self, before: TableState, merged: TableMetadata) -> dict[str, list[str]]:
        """The metadata files that are dropped when one state follows the other."""
        updates = (
            RemoveProperties(tuple(before.metadata.properties)),
            SetProperties(merged.properties),
            SetLocation(merged.location),
        )
        return let_go(self._repository.store, before, updates)

    def _theirs(self) -> _Theirs:
        state = self._ours
        row = self._repository.foreign.rows.of_stream(state.stream)
        if row is not None and row.row_location is not None:
            return self._told(True, [row.row_location], row.previous)
        self._repository.materializer.settle_claim(state.stream)
        locations = _versions_after(state, self._storage) if is_file_system(state) else []
        if not locations:
            raise ValidationError(f"{name_text(state.identifier)}: there is no conflict to resolve any more")
        return self._told(False, locations, None)

    def _told(self, through_row: bool, locations: Sequence[str], previous: str | None) -> _Theirs:
        try:
            files, why = self._read(locations)
            chain = Chain(files) if files else None
            if through_row and files:
                assert self._published_location is not None or why, "what was never published can't be followed"
                chain = chain_from(self._published_location or "", files[0], previous, self._storage) or chain
            for file in () if chain is None else chain.files:
                self._adoption.given(self._ours, file, self._published)
        except ForbiddenLocationError as e:
            chain, why = None, str(e)
        return _Theirs(locations[-1], through_row, chain, why)

    def _read(self, locations: Sequence[str]) -> tuple[tuple[ForeignFile, ...], str | None]:
        """The files, or why they can't be adopted."""
        out = []
        for location in locations:
            try:
                file = read_foreign(location, self._storage)
            except IcecoreError as e:
                return (), str(e)
            if self._published_location is None or not is_same_table(self._ours.metadata, file.metadata):
                return (), f"{location} is another table; rename or drop the one of the log, and it is taken in"
            if file.metadata.format_version < self._published.format_version:
                return (), f"{location} has a lower format version, {file.metadata.format_version}"
            out.append(file)
        return tuple(out), None

    def _adopt(self, chain: Chain, cut_off: Claim | None = None) -> TableState:
        state, base = self._ours, self._published
        in_theirs = {s.snapshot_id for s in chain.files[-1].metadata.snapshots}
        in_base = {s.snapshot_id for s in base.snapshots}
        aside = [s.snapshot_id for s in state.metadata.snapshots if s.snapshot_id not in in_theirs | in_base]
        for index, file in enumerate(chain.files):
            first = index == 0
            state = self._adoption.adopt(
                state,
                file,
                chain.skipped if first else (),
                base,
                aside if first else (),
                actor=self._provenance.actor,
                message=self._provenance.message,
                unfinished=unfinished_commit(cut_off, state, file),
            )
            base = file.metadata
        return state

    def _merged(self, theirs: TableMetadata) -> TableMetadata:
        """The log's metadata; ids that the other engine gave out are not given out again."""
        ours = self._ours.metadata
        rows = [n for n in (ours.next_row_id, theirs.next_row_id) if n is not None]
        return evolve(
            ours,
            last_sequence_number=max(ours.last_sequence_number, theirs.last_sequence_number),
            last_column_id=max(ours.last_column_id, theirs.last_column_id),
            last_partition_id=max(ours.last_partition_id, theirs.last_partition_id),
            next_row_id=max(rows) if rows and ours.format_version > 2 else ours.next_row_id,
        )

    def _record(self, location: str) -> Mapping[str, Any]:
        """The bytes of a file that can't be adopted, as far as they can be read."""
        try:
            data = self._storage.read_bytes(location, MOST_BYTES_OF_METADATA)
        except (MissingFileError, ForbiddenLocationError, CorruptFileError):
            return {"metadata-location": location}
        return {"metadata-location": location, "metadata-file": base64.b64encode(zlib.compress(data)).decode()}

    def _take_row_back(self, theirs: _Theirs) -> None:
        if self._published_location is None:
            raise ForeignCommitError(f"{name_text(self._ours.identifier)}: {theirs.why_not}")
        if theirs.through_row:
            self._repository.models.share(self._ours.stream, self._ours.identifier, self._published_location)


def _versions_after(state: TableState, storage: Storage) -> list[str]:
    locations = []
    while (location := next_version_file(state, storage)) is not None:
        locations.append(location)
        state = evolve(state, metadata_version=metadata_version(location))
    return locations
