"""The options of the calls that commit, each said once: calls take them as `**options: Unpack[...]`.

- `message`, `author`: why the commit is made and by whom, for the log; the author is by default the actor that the
  warehouse was opened with. Raises ValidationError for what is no text.
- `idempotency_key`: a call with the key of a commit that was made already does nothing again. Raises
  ValidationError for what is no text.
- `dry_run`: nothing is stored, and the result says what the commit would be.
- `branch`: the branch that the snapshot goes to, by default main; one that is not there is made from main. Raises
  ValidationError for a tag.
- `snapshot_properties`: text by text, for the snapshot's summary. Raises ValidationError for other values.
- `base_snapshot_id`: the snapshot that the caller decided on; what changed since may be a conflict. Raises
  NoSuchSnapshotError.
- `isolation_level`: "serializable" (no row that was read may have changed) or "snapshot" (only the files that the
  commit touches must be as they were); by default what the table's properties say. Raises ValidationError for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from icecore.engine.events.event import Provenance
from icecore.engine.events.provenance import provenance

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.common.identifiers import IdentifierLike
    from icecore.engine.spec.partition import PartitionSpec
    from icecore.engine.spec.schema import Schema
    from icecore.engine.spec.sort import SortOrder


class Commit(TypedDict, total=False):
    """Why a commit is made, and by whom."""

    message: str | None
    author: str | None


class MetadataOptions(Commit, total=False):
    """Of a commit that changes metadata only."""

    dry_run: bool


class CommitOptions(MetadataOptions, total=False):
    """Of any commit."""

    idempotency_key: str | None


class RowChangeOptions(TypedDict, total=False):
    """Of a change of rows inside of a transaction, which has the options of the commit."""

    branch: str
    snapshot_properties: Mapping[str, str] | None


class PinnedChangeOptions(RowChangeOptions, total=False):
    """Of a change of rows inside of a transaction that may be decided on a base."""

    base_snapshot_id: int | None
    isolation_level: str | None


class RowOptions(CommitOptions, RowChangeOptions, total=False):
    """Of a change of rows as one commit."""


class PinnedOptions(RowOptions, PinnedChangeOptions, total=False):
    """Of a change of rows as one commit, which may be decided on a base."""


class _TableParts(Commit, total=False):
    partition_spec: PartitionSpec | Sequence[str] | None
    sort_order: SortOrder | Sequence[str] | None
    location: str | None
    properties: Mapping[str, str] | None


class CreateTable(_TableParts, total=False):
    """As `Catalog.create_table` takes them."""

    format_version: int


class ReplaceTable(_TableParts, total=False):
    """As `Catalog.replace_table` takes them."""

    format_version: int | None


class RegisterTable(Commit, total=False):
    """As `Catalog.register_table` takes them."""

    location_mapping: Mapping[str, str] | None


class Undrop(Commit, total=False):
    """As `Catalog.undrop_table` and `undrop_view` take them."""

    position: int | None


class ComputeStatistics(Commit, total=False):
    """As `Table.compute_statistics` and `compute_partition_statistics` take them."""

    snapshot_id: int | None


class DefineView(TypedDict, total=False):
    """As `ViewChanges.replace` takes them: what a view is to be."""

    dialect: str
    representations: Mapping[str, str] | None
    schema: Schema | pa.Schema | None
    default_namespace: IdentifierLike | None
    default_catalog: str | None
    properties: Mapping[str, str] | None
    comment: str | None
    summary: Mapping[str, str] | None
    location: str | None


class ReplaceView(DefineView, Commit, total=False):
    """As `View.replace` takes them."""


class CreateView(ReplaceView, total=False):
    """As `Catalog.create_view` takes them."""

    replace: bool


def is_pinned(options: PinnedChangeOptions) -> bool:
    """Whether a change says what it was decided on; else it is of the rows that are there at the commit."""
    return options.get("base_snapshot_id") is not None or options.get("isolation_level") is not None


def provenance_of(actor: str | None, options: CommitOptions) -> Provenance:
    """Who commits and why, by default the actor that the warehouse was opened with. Raises ValidationError."""
    return provenance(
        actor,
        message=options.get("message"),
        author=options.get("author"),
        idempotency_key=options.get("idempotency_key"),
    )
