"""Schema evolution: a schema and a list of changes give the next schema.

Pure; spec: Schema Evolution, Default values (T2 to T9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_changes import SchemaChanges
from icecore.engine.evolution.schema_ops import SchemaOp
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import MAX_FIELD_ID, Schema, check_format_version
from icecore.engine.spec.sort import SortOrder
from icecore.engine.spec.transform import IdentityTransform, VoidTransform
from icecore.engine.spec.types import NestedField, StructType, walk


def evolve_schema(
    schema: Schema,
    ops: Sequence[SchemaOp],
    *,
    last_column_id: int,
    format_version: int,
    specs: Iterable[PartitionSpec] = (),
    default_spec_id: int | None = None,
    sort_order: SortOrder | None = None,
    allow_incompatible_changes: bool = False,
    case_sensitive: bool = True,
) -> tuple[Schema, int]:
    """The schema after `ops`, under the same schema id, and the new last-column-id (T7, T8).

    `specs` are all of the table's partition specs: a promotion must keep the values of every one. The source columns
    of the spec `default_spec_id` (of all the specs where it is None) and of `sort_order` can't be deleted.
    `allow_incompatible_changes` lets columns become required, and be added as required without a default. Raises
    ValidationError naming the column and the rule that a change breaks.
    """
    all_specs = tuple(specs)
    last_column_id = max(last_column_id, schema.highest_field_id)
    changes = SchemaChanges(
        schema,
        last_column_id,
        format_version=format_version,
        specs=all_specs,
        allow_incompatible_changes=allow_incompatible_changes,
        case_sensitive=case_sensitive,
    )
    for op in ops:
        changes.record(op)
    fields = changes.fields()
    bare = Schema(fields, schema.schema_id)
    bare.check_unambiguous()
    evolved = Schema(fields, schema.schema_id, _identifier_ids(schema, bare, changes))
    if changes.last_column_id > MAX_FIELD_ID:
        raise ValidationError(f"field ids go up to {MAX_FIELD_ID}, and {changes.last_column_id} would be needed (T4)")
    check_format_version(evolved, format_version)
    _check_names(schema, evolved, all_specs, case_sensitive)
    in_use = [s for s in all_specs if default_spec_id is None or s.spec_id == default_spec_id]
    _check_sources(schema, evolved, in_use, sort_order)
    return evolved, changes.last_column_id


def _identifier_ids(before: Schema, after: Schema, changes: SchemaChanges) -> tuple[int, ...]:
    names = changes.identifier_names
    if names is not None:
        return tuple(_identifier_id(before, after, name, changes.case_sensitive) for name in names)
    for field_id in before.identifier_field_ids:
        if after.get_field(field_id) is None:
            raise ValidationError(
                f"the identifier field {before.name_of(field_id)!r} can't be deleted; "
                "set other identifier fields in the same change (T5)"
            )
    return before.identifier_field_ids


def _identifier_id(before: Schema, after: Schema, name: str, case_sensitive: bool) -> int:
    """The id by a column's name after the change, or by the old name of a column that the same batch renames."""
    if not after.has_name(name, case_sensitive) and before.has_name(name, case_sensitive):
        field_id = before.find_field(name, case_sensitive).field_id
        if after.get_field(field_id) is not None:
            return field_id
    return after.find_field(name, case_sensitive).field_id


def _check_names(before: Schema, after: Schema, specs: tuple[PartitionSpec, ...], case_sensitive: bool) -> None:
    """Raises ValidationError for a new column name that a partition field over another column has.

    Without case sensitivity, it is raised as well for a name that differs from a sibling's in case only.
    """
    changed = [f for f in walk(after.fields) if (old := before.get_field(f.field_id)) is None or old.name != f.name]
    if not case_sensitive:
        for f in changed:
            for other in _siblings(after, f):
                if other.name.lower() == f.name.lower() and other.field_id != f.field_id:
                    raise ValidationError(f"columns {f.name!r} and {other.name!r} differ in case only")
    for f in changed:
        name = after.name_of(f.field_id)
        for spec in specs:
            for p in spec.fields:
                own = p.source_id == f.field_id and isinstance(p.transform, (IdentityTransform, VoidTransform))
                if p.name == name and not own and after.get_field(p.source_id) is not None:
                    raise ValidationError(
                        f"column {name!r} can't have the name of a partition field of spec {spec.spec_id}, "
                        f"{p.transform} of {after.name_of(p.source_id)!r}"
                    )


def _siblings(schema: Schema, field: NestedField) -> tuple[NestedField, ...]:
    parent_id = schema.parent_id(field.field_id)
    if parent_id is None:
        return schema.fields
    parent = schema.find_field(parent_id).field_type
    return parent.fields if isinstance(parent, StructType) else ()


def _check_sources(before: Schema, after: Schema, specs: Sequence[PartitionSpec], order: SortOrder | None) -> None:
    """Raises ValidationError where a source column of the specs or the order is gone or of a wrong type (PT1)."""
    for spec in specs:
        for p in spec.fields:
            if isinstance(p.transform, VoidTransform):
                continue
            for source_id in p.source_ids:
                _check_source(before, after, source_id, f"partition field {p.name!r} of spec {spec.spec_id}")
        if all(before.get_field(i) is not None for p in spec.fields for i in p.source_ids):
            spec.check(after)
    for s in order.fields if order else ():
        for source_id in s.source_ids:
            _check_source(
                before, after, source_id, f"sort field {s.transform} of order {order.order_id if order else 0}"
            )


def _check_source(before: Schema, after: Schema, source_id: int, user: str) -> None:
    if before.get_field(source_id) is not None and after.get_field(source_id) is None:
        raise ValidationError(f"column {before.name_of(source_id)!r} can't be deleted: {user} needs it")
