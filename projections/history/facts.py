"""Facts about a table, snapshot or view, as text that can be compared: one for each column, property, ref and so on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.sort import SortOrder
from icecore.engine.spec.types import NestedField, walk
from icecore.engine.spec.view import ViewMetadata

Fact = tuple[str, str]
"""The subject of a fact, and which one of its kind: ("property", "owner")."""
Facts = Mapping[Fact, tuple[str, str]]
"""The name for people and the text of each fact. A renamed column is the same fact under a new name."""


def table_facts(metadata: TableMetadata | None) -> Facts:
    """The facts of a table; empty for None."""
    return {} if metadata is None else dict(_of_table(metadata))


def snapshot_facts(metadata: TableMetadata, snapshot: Snapshot | None, spec_ids: Iterable[int]) -> Facts:
    """The facts of a snapshot whose live files are of these specs: its schema, specs and totals; empty for None."""
    return {} if snapshot is None else dict(_of_snapshot(metadata, snapshot, spec_ids))


def view_facts(metadata: ViewMetadata | None) -> Facts:
    """The facts of a view; empty for None."""
    return {} if metadata is None else dict(_of_view(metadata))


def _of_table(m: TableMetadata) -> Iterator[tuple[Fact, tuple[str, str]]]:
    yield _fact("format-version", "", m.format_version)
    yield _fact("location", "", m.location)
    yield from _columns(m.schema())
    yield _fact("schema", "", f"schema {m.current_schema_id}")
    yield _fact("spec", "", f"spec {m.default_spec_id} {m.spec()}")
    yield _fact("sort-order", "", f"order {m.default_sort_order_id} {_sort_text(m.sort_order())}")
    for key, value in m.properties.items():
        yield _fact("property", key, value)
    for name, ref in m.refs.items():
        settings = {k: v for k, v in ref.to_dict().items() if k not in ("snapshot-id", "type")}
        yield _fact("ref", name, f"{ref.type} -> {ref.snapshot_id}" + (f" {_json(settings)}" if settings else ""))
    for s in m.snapshots:
        yield _fact("snapshot", s.snapshot_id, (s.summary or {}).get("operation", "snapshot"))
    for file in m.statistics:
        yield _fact("statistics", file.snapshot_id, file.statistics_path)
    for partition_file in m.partition_statistics:
        yield _fact("partition-statistics", partition_file.snapshot_id, partition_file.statistics_path)


def _of_snapshot(m: TableMetadata, s: Snapshot, spec_ids: Iterable[int]) -> Iterator[tuple[Fact, tuple[str, str]]]:
    summary = s.summary or {}
    yield _fact("snapshot", "", f"{summary.get('operation', 'snapshot')} {s.snapshot_id}")
    schema = m.schema() if s.schema_id is None else m.schema_by_id(s.schema_id)
    yield from _columns(schema)
    yield _fact("schema", "", f"schema {schema.schema_id}")
    for spec_id in sorted(spec_ids):
        yield _fact("spec", spec_id, f"spec {spec_id} {m.spec_by_id(spec_id)}")
    for key, value in summary.items():
        if key.startswith("total-"):
            yield _fact("summary", key, value)


def _of_view(m: ViewMetadata) -> Iterator[tuple[Fact, tuple[str, str]]]:
    yield _fact("location", "", m.location)
    yield from _columns(m.schema())
    version = m.current_version()
    yield _fact("version", "", f"version {m.current_version_id}")
    yield _fact("default-namespace", "", ".".join((*filter(None, [version.default_catalog]), *version.namespace)))
    for r in version.representations:
        yield _fact(r.type, r.dialect or "", r.sql if r.sql is not None else _json(r.to_dict()))
    for key, value in m.properties.items():
        yield _fact("property", key, value)


def _columns(schema: Schema) -> Iterator[tuple[Fact, tuple[str, str]]]:
    for f in walk(schema.fields):
        yield ("column", str(f.field_id)), (schema.name_of(f.field_id), _column_text(schema, f))
    if schema.identifier_field_ids:
        yield _fact("identifier", "", ", ".join(schema.identifier_field_names()))


def _column_text(schema: Schema, f: NestedField) -> str:
    kind = str(f.field_type) if f.field_type.is_primitive else type(f.field_type).__name__.removesuffix("Type").lower()
    required = " not null" if f.required else ""
    default = "" if f.write_default is None else f" default {f.write_default}"
    doc = "" if f.doc is None else f" comment {f.doc!r}"
    return f"{schema.name_of(f.field_id)} {kind}{required}{default}{doc}"


def _sort_text(order: SortOrder) -> str:
    fields = (f"{f.transform}({', '.join(map(str, f.source_ids))}) {f.direction} {f.null_order}" for f in order.fields)
    return "[" + ", ".join(fields) + "]"


def _fact(what: str, key: object, text: object) -> tuple[Fact, tuple[str, str]]:
    return (what, str(key)), (str(key), str(text))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
