"""The options of the calls that commit, each declared once: calls take them as `**options: Unpack[...]`.

- `message`, `author`: why the commit is made and by whom, for the log; the author is by default the actor that the
  warehouse was opened with. Raises ValidationError for what is no text.
- `idempotency_key`: a call with the key of a commit that was made already does nothing again. Raises
  ReusedKeyError where that was another call, of another kind or to something else, and ValidationError for what is no
  text.
- `dry_run`: nothing is stored, and the result says what the commit would be, or that it is done under the key.
- `branch`: the branch that the snapshot goes to, by default main; one that is not there is made from main, or of
  nothing while that is empty; rewrites with RewriteCommitOptions raise NoSuchSnapshotError then. Raises
  ValidationError for a tag.
- `snapshot_properties`: a map of text to text, for the snapshot's summary. Raises ValidationError for other values.
- `base_snapshot_id`: the snapshot that the caller decided on; what changed since may be a conflict. Raises
  NoSuchSnapshotError.
- `isolation_level`: "serializable" (no row that was read may have changed) or "snapshot" (only the files that the
  commit touches must be as they were); by default what the table's properties say. Raises ValidationError for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from icecore.engine.events.event import Provenance
from icecore.engine.events.provenance import provenance

if TYPE_CHECKING:
    from icecore.engine.common.identifiers import IdentifierLike
    from icecore.engine.data.given_schema import PartitionSpecLike, SchemaLike, SortOrderLike


# The rows of a change were called `data` before they were `df`, as in PyIceberg.
RENAMED = {"data": "df"}


class Commit(TypedDict, total=False):
    """The reason and the author of a commit."""

    message: str | None
    author: str | None


class KeyedCommit(Commit, total=False):
    """The reason and the author of a commit, and its idempotency key."""

    idempotency_key: str | None


class MetadataOptions(Commit, total=False):
    """The options of a call that may make several commits."""

    dry_run: bool


class CommitOptions(MetadataOptions, total=False):
    """The options of any commit."""

    idempotency_key: str | None


class RowChangeOptions(TypedDict, total=False):
    """The options of a change of rows inside of a transaction, which has the options of the commit."""

    branch: str
    snapshot_properties: Mapping[str, str] | None


class BasedChangeOptions(RowChangeOptions, total=False):
    """The options of a change inside of a transaction that is decided on a base, and changes no row."""

    base_snapshot_id: int | None


class PinnedChangeOptions(BasedChangeOptions, total=False):
    """The options of a change of rows inside of a transaction that may be decided on a base."""

    isolation_level: str | None


class RowOptions(CommitOptions, RowChangeOptions, total=False):
    """The options of a change of rows as one commit."""


class BasedOptions(RowOptions, BasedChangeOptions, total=False):
    """The options of a change as one commit that is decided on a base, and changes no row."""


class PinnedOptions(BasedOptions, PinnedChangeOptions, total=False):
    """The options of a change of rows as one commit, which may be decided on a base."""


class RewriteCommitOptions(MetadataOptions, RowChangeOptions, total=False):
    """The options of a rewrite, which may make several commits; its branch must be there."""


class _TableParts(TypedDict, total=False):
    partition_spec: PartitionSpecLike | None
    sort_order: SortOrderLike | None
    location: str | None
    properties: Mapping[str, str] | None


class NewTableOptions(_TableParts, total=False):
    """The options of a new table inside of a transaction, which has the options of the commit."""

    format_version: int


class CreateTable(KeyedCommit, NewTableOptions, total=False):
    """The options of `Catalog.create_table`."""


class ReplaceTable(KeyedCommit, _TableParts, total=False):
    """The options of `Catalog.replace_table`."""

    format_version: int | None


class RegisterTable(KeyedCommit, total=False):
    """The options of `Catalog.register_table`."""

    location_mapping: Mapping[str, str] | None
    overwrite: bool


class Undrop(KeyedCommit, total=False):
    """The options of `Catalog.undrop_table` and `undrop_view`."""

    position: int | None


class ComputeStatistics(Commit, total=False):
    """The options of `Table.compute_statistics` and `compute_partition_statistics`."""

    snapshot_id: int | None


class DefineView(TypedDict, total=False):
    """The options of `ViewChanges.replace`: the definition of a view."""

    dialect: str
    representations: Mapping[str, str] | None
    schema: SchemaLike | None
    default_namespace: IdentifierLike | None
    default_catalog: str | None
    properties: Mapping[str, str] | None
    comment: str | None
    summary: Mapping[str, str] | None
    location: str | None


class ReplaceView(DefineView, KeyedCommit, total=False):
    """The options of `View.replace`."""


class CreateView(ReplaceView, total=False):
    """The options of `Catalog.create_view`."""

    replace: bool


def is_pinned(options: PinnedChangeOptions) -> bool:
    """Whether a change is decided on a base; else it is of the rows that are there at the commit."""
    return options.get("base_snapshot_id") is not None or options.get("isolation_level") is not None


def provenance_of(actor: str | None, options: CommitOptions) -> Provenance:
    """The provenance of a commit, by default of the actor that opened the warehouse. Raises ValidationError."""
    return provenance(
        actor,
        message=options.get("message"),
        author=options.get("author"),
        idempotency_key=options.get("idempotency_key"),
    )
