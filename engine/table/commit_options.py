"""The options of calls that give a table or a view, or for a dry run what the call would be: for type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

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


class ReplaceView(Commit, total=False):
    """As `View.replace` takes them."""

    dialect: str
    representations: Mapping[str, str] | None
    schema: Schema | pa.Schema | None
    default_namespace: IdentifierLike | None
    default_catalog: str | None
    properties: Mapping[str, str] | None
    comment: str | None
    summary: Mapping[str, str] | None
    location: str | None


class CreateView(ReplaceView, total=False):
    """As `Catalog.create_view` takes them."""

    replace: bool
