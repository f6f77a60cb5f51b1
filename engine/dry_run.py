"""What a commit would be, for a caller who wants to know before making it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.decide import Decision
from icecore.engine.metadata_builder import MetadataBuilder
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata


@frozen
class DryRun:
    """A commit that was decided and not made.

    `payload` is what its event would hold, `metadata` the table after it, `conflicts` says what would refuse it now.
    `added_files` and `removed_files` are paths of data and delete files; those that only this call wrote are deleted
    again. `is_done` says that an earlier call with the same idempotency key made the commit already.
    """

    payload: Mapping[str, Any] = field(repr=False)
    metadata: TableMetadata = field(repr=False)
    conflicts: tuple[str, ...] = ()
    added_files: tuple[str, ...] = ()
    removed_files: tuple[str, ...] = ()
    is_done: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change, so that no event would be made."""
        return not self.payload.get("updates")

    @property
    def summaries(self) -> tuple[Mapping[str, str], ...]:
        """The summaries of the snapshots that would be made, in their order (L5)."""
        updates = self.payload.get("updates", ())
        return tuple(u["snapshot"].get("summary", {}) for u in updates if u["action"] == "add-snapshot")

    @property
    def totals(self) -> dict[str, int]:
        """The totals after the last of those snapshots: `total-records` and the like; empty without a snapshot."""
        last = self.summaries[-1] if self.summaries else {}
        return {k: int(v) for k, v in last.items() if k.startswith("total-")}


def dry_run_of(base: TableMetadata, decision: Decision, recorded_at_ms: int, conflicts: Iterable[str]) -> DryRun:
    """The outcome of a decision on `base`."""
    builder = MetadataBuilder(base)
    builder.apply(decision.updates, recorded_at_ms)
    return DryRun(
        decision.to_payload(),
        builder.build(),
        tuple(conflicts),
        paths_of(decision.content, ManifestEntryStatus.ADDED),
        paths_of(decision.content, ManifestEntryStatus.DELETED),
    )


def refused(base: TableMetadata, conflicts: Iterable[str]) -> DryRun:
    """The outcome of a commit that could not even be decided on: what it was planned on does not hold any more."""
    return DryRun({}, base, tuple(conflicts))


def paths_of(content: pa.Table | None, status: ManifestEntryStatus) -> tuple[str, ...]:
    """The paths of a commit's content files of one status, each once, in their order."""
    if content is None:
        return ()
    chosen = content.filter(pc.equal(content["status"], int(status)))
    return tuple(dict.fromkeys(chosen["file_path"].to_pylist()))
