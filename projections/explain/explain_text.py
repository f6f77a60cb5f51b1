"""Text on the metadata of a file or a manifest."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from icecore.engine.errors import ValidationError
from icecore.engine.expression.sql.sql_text import value_text
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ManifestFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import Transform, human_string
from icecore.engine.spec.types import PrimitiveType, UUIDType
from icecore.projections.segments.entry_typing import METRIC_PREFIXES


def plain_count(number: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def known_metrics(row: Mapping[str, Any], field_ids: Iterable[int], schema: Schema) -> str:
    """The metrics of columns of a file: `amount from 1.0 to 7.0, nulls 0 of 2`."""
    return "; ".join(_column(row, i, schema) for i in field_ids)


def forgotten_bounds(row: Mapping[str, Any], schema: Schema, position: str) -> str | None:
    """The columns of a file with values and no bounds: `bounds of email: forgotten at position 9`."""
    ids = sorted({int(n.removeprefix("values_")) for n in row if n.startswith("values_")})
    names = [
        schema.name_of(i)
        for i in ids
        if (row[f"values_{i}"] or 0) > (row.get(f"nulls_{i}") or 0)
        and row.get(f"lower_{i}") is None
        and row.get(f"upper_{i}") is None
    ]
    return f"bounds of {', '.join(names)}: forgotten at position {position}" if names else None


def _column(row: Mapping[str, Any], field_id: int, schema: Schema) -> str:
    name = schema.name_of(field_id)
    kind = schema.find_field(field_id).primitive_type
    metrics = {p: row.get(f"{p}_{field_id}") for p in METRIC_PREFIXES}
    parts = [
        f"{word} {_raw_text(kind, metrics[p])}"
        for p, word in (("lower", "from"), ("upper", "to"))
        if metrics[p] is not None
    ]
    text = " ".join([name, *parts])
    for prefix in ("nulls", "nans"):
        if metrics[prefix] is not None:
            total = "" if metrics["values"] is None else f" of {metrics['values']}"
            text += f", {prefix} {metrics[prefix]}{total}"
    return text


def _raw_text(kind: PrimitiveType, raw: Any) -> str:
    return value_text(kind, uuid.UUID(bytes=raw) if isinstance(kind, UUIDType) else raw)


def known_summary(manifest: ManifestFile, spec: PartitionSpec, field_ids: Iterable[int], schema: Schema) -> str | None:
    """The summaries of the partition fields of some columns: `day_month from 2024-01 to 2024-03`."""
    if manifest.partitions is None or len(manifest.partitions) != len(spec.fields):
        return None
    wanted, out = set(field_ids), []
    for f, summary in zip(spec.fields, manifest.partitions, strict=True):
        if wanted and f.source_id not in wanted:
            continue
        kind = f.result_type(schema)
        bounds = [_bound_text(f.transform, kind, raw) for raw in (summary.lower_bound, summary.upper_bound)]
        nulls = ", with nulls" if summary.contains_null else ""
        nans = ", with NaN" if summary.contains_nan else ""
        out.append(f"{f.name} from {bounds[0]} to {bounds[1]}{nulls}{nans}")
    return "; ".join(out) or None


def _bound_text(transform: Transform, kind: PrimitiveType, raw: bytes | None) -> str:
    if raw is None:
        return "nothing"
    try:
        return human_string(transform, kind, single_value.from_bytes(kind, raw))
    except ValidationError:
        return "something that can't be read"
