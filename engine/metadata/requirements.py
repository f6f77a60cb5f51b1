"""The requirements of a commit, in the words of the REST catalog: derived from its updates, checked against a state.

Spec: the REST catalog's TableRequirement; derived as the Java library does (C4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from icecore.engine.common.json_reader import get
from icecore.engine.errors import CommitFailedError, ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, SnapshotRefType

Requirement = dict[str, Any]
ASSERT_CREATE: Requirement = {"type": "assert-create"}
_REPLACED = frozenset(
    {
        "assert-ref-snapshot-id",
        "assert-current-schema-id",
        "assert-default-spec-id",
        "assert-default-sort-order-id",
    }
)


def requirements_for(
    base: TableMetadata, updates: Iterable[Mapping[str, Any]], *, is_replace: bool = False
) -> list[Requirement]:
    """The requirements under which the updates were decided on `base`; each appears once.

    A replacement of the table relies on the ids that were given out, and on nothing that it replaces. As in Java the
    removal of a ref relies on nothing, and schemas and specs are removed as long as no other branch than main moves:
    main's writers have the current schema and the default spec, which are relied on anyway.
    """
    found: list[Requirement] = [{"type": "assert-table-uuid", "uuid": base.table_uuid}]
    for update in updates:
        for requirement in _of_update(base, update):
            if requirement not in found and not (is_replace and requirement["type"] in _REPLACED):
                found.append(requirement)
    return found


def _of_update(base: TableMetadata, update: Mapping[str, Any]) -> list[Requirement]:
    match update["action"]:
        case "set-snapshot-ref":
            name = update["ref-name"]
            ref = base.refs.get(name)
            snapshot_id = ref.snapshot_id if ref else None
            return [{"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}]
        case "add-schema":
            return [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": base.last_column_id}]
        case "set-current-schema":
            return [_current_schema(base)]
        case "add-spec":
            last = base.last_partition_id
            return [{"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": last}]
        case "set-default-spec":
            return [_default_spec(base)]
        case "set-default-sort-order":
            order_id = base.default_sort_order_id
            return [{"type": "assert-default-sort-order-id", "default-sort-order-id": order_id}]
        case "remove-partition-specs":
            return [_default_spec(base), *_branches(base)]
        case "remove-schemas":
            return [_current_schema(base), *_branches(base)]
        case _:
            return []


def _current_schema(base: TableMetadata) -> Requirement:
    return {"type": "assert-current-schema-id", "current-schema-id": base.current_schema_id}


def _default_spec(base: TableMetadata) -> Requirement:
    return {"type": "assert-default-spec-id", "default-spec-id": base.default_spec_id}


def _branches(base: TableMetadata) -> list[Requirement]:
    return [
        {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": ref.snapshot_id}
        for name, ref in base.refs.items()
        if ref.type is SnapshotRefType.BRANCH and name != MAIN_BRANCH
    ]


def check(metadata: TableMetadata | None, requirements: Iterable[Mapping[str, Any]]) -> None:
    """Raises CommitFailedError for the first requirement that is not met, ValidationError for an unknown one."""
    for _, failure in failures(metadata, requirements):
        raise CommitFailedError(failure)


def failures(
    metadata: TableMetadata | None, requirements: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each requirement that is not met, with the reason. Raises ValidationError for an unknown one."""
    for requirement in requirements:
        kind = get(requirement, "type", str, "requirement")
        if kind == "assert-create":
            if metadata is not None:
                yield requirement, "the table exists already"
            continue
        if metadata is None:
            yield requirement, "the table does not exist"
            continue
        expected, found, what = _compare(metadata, kind, requirement)
        if expected != found:
            yield requirement, f"{what} was expected to be {expected}, but is {found}"


def _compare(metadata: TableMetadata, kind: str, requirement: Mapping[str, Any]) -> tuple[Any, Any, str]:
    match kind:
        case "assert-table-uuid":
            return get(requirement, "uuid", str, kind), metadata.table_uuid, "the table's UUID"
        case "assert-ref-snapshot-id":
            name = get(requirement, "ref", str, kind)
            ref = metadata.refs.get(name)
            return requirement.get("snapshot-id"), ref.snapshot_id if ref else None, f"the snapshot of ref {name!r}"
        case "assert-last-assigned-field-id":
            return requirement.get("last-assigned-field-id"), metadata.last_column_id, "the last field id"
        case "assert-current-schema-id":
            return requirement.get("current-schema-id"), metadata.current_schema_id, "the current schema id"
        case "assert-last-assigned-partition-id":
            return requirement.get("last-assigned-partition-id"), metadata.last_partition_id, "the last partition id"
        case "assert-default-spec-id":
            return requirement.get("default-spec-id"), metadata.default_spec_id, "the default spec id"
        case "assert-default-sort-order-id":
            order_id = metadata.default_sort_order_id
            return requirement.get("default-sort-order-id"), order_id, "the default sort order id"
        case _:
            raise ValidationError(f"unknown requirement {kind!r}")
