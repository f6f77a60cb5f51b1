"""The reader of requirements in the REST catalog's words. Spec: its TableRequirement and ViewRequirement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from icecore.engine.common.json_reader import get
from icecore.engine.errors import ValidationError
from icecore.engine.spec.updates.requirement import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    AssertViewUuid,
    TableRequirement,
    ViewRequirement,
)

_R = TypeVar("_R")


def _asserted(kind: type[_R], key: str, of: type) -> Callable[[Any], _R]:
    return lambda obj: kind(get(obj, key, of, kind.type))  # type: ignore[attr-defined, call-arg]  # each has both


def _ref(obj: Any) -> AssertRefSnapshotId:
    where = AssertRefSnapshotId.type
    return AssertRefSnapshotId(get(obj, "ref", str, where), get(obj, "snapshot-id", int, where, None))


_OF_TABLES: Mapping[str, Callable[[Any], TableRequirement]] = {
    AssertCreate.type: lambda _: AssertCreate(),
    AssertTableUuid.type: _asserted(AssertTableUuid, "uuid", str),
    AssertRefSnapshotId.type: _ref,
    AssertLastAssignedFieldId.type: _asserted(AssertLastAssignedFieldId, "last-assigned-field-id", int),
    AssertCurrentSchemaId.type: _asserted(AssertCurrentSchemaId, "current-schema-id", int),
    AssertLastAssignedPartitionId.type: _asserted(AssertLastAssignedPartitionId, "last-assigned-partition-id", int),
    AssertDefaultSpecId.type: _asserted(AssertDefaultSpecId, "default-spec-id", int),
    AssertDefaultSortOrderId.type: _asserted(AssertDefaultSortOrderId, "default-sort-order-id", int),
}
_OF_VIEWS: Mapping[str, Callable[[Any], ViewRequirement]] = {
    AssertCreate.type: lambda _: AssertCreate(),
    AssertViewUuid.type: _asserted(AssertViewUuid, "uuid", str),
}


def read_table_requirements(objects: Iterable[Any]) -> Iterator[TableRequirement]:
    """The requirements that JSON objects stand for. Raises ValidationError for one that is no table requirement."""
    return _read(objects, _OF_TABLES, "table requirement")


def read_view_requirements(objects: Iterable[Any]) -> Iterator[ViewRequirement]:
    """The requirements that JSON objects stand for. Raises ValidationError for one that is no view requirement."""
    return _read(objects, _OF_VIEWS, "view requirement")


def _read(objects: Iterable[Any], readers: Mapping[str, Callable[[Any], _R]], what: str) -> Iterator[_R]:
    for obj in objects:
        found = get(obj, "type", str, what)
        if found not in readers:
            raise ValidationError(f"unknown {what} {found!r}")
        yield readers[found](obj)
