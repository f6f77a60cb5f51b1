"""Rows of Avro data files as Arrow batches.

Spec: Appendix A Avro (M7). Times stay integers all the way, because Python's `datetime` ends at the year 9999.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import FIELD_ID_KEY
from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.avro_blocks import AvroBlock, read_blocks, read_header, write_container
from icecore.engine.formats.avro_schema import FIELD_ID, FIELD_NAME, resolve
from icecore.engine.spec.single_value import unscaled_to_decimal

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_TIMES = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_Convert = Callable[[Any], Any]


@frozen
class _Column:
    """An Avro type as an Arrow type, and the conversion of its decoded values (None: as they are)."""

    type: pa.DataType
    convert: _Convert | None = None


class AvroRows:
    """A whole Avro file in memory. Raises CorruptFileError naming `where` for anything that is not one."""

    def __init__(self, data: bytes, where: str) -> None:
        self._where = where
        self._header = read_header(data, where)
        self._blocks = read_blocks(data, self._header, where, most_bytes=None)
        reader = _SchemaReader(where)
        root = self._header.schema
        if not isinstance(root, dict) or root.get("type") != "record":
            raise CorruptFileError(f"{where}: the rows of a data file must be records, found {str(root)[:60]}")
        try:
            fields, self._convert = reader.fields(resolve(root, where))
            self.schema = pa.schema(fields)
            self._raw_schema = json.dumps(without_logical_types(root))
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as e:
            # JSON of any shape may lie where the schema should be.
            raise CorruptFileError(f"{where}: the Avro header has no valid schema: {e!r}") from e

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows as batches of about `batch_rows`, in order."""
        pending: list[AvroBlock] = []
        for block in self._blocks:
            pending.append(block)
            if sum(b.count for b in pending) >= batch_rows:
                yield self._decode(pending)
                pending = []
        if pending:
            yield self._decode(pending)

    def _decode(self, blocks: list[AvroBlock]) -> pa.RecordBatch:
        container = write_container(
            {"avro.schema": self._raw_schema}, blocks, codec="null", sync_marker=self._header.sync_marker
        )
        try:
            rows = list(fastavro.reader(io.BytesIO(container)))
            convert = self._convert
            records = rows if convert is None else [convert(r) for r in rows]
            columns = [pa.array([r[f.name] for r in records], f.type) for f in self.schema]
        except Exception as e:
            # A block of garbage makes fastavro raise almost anything.
            raise CorruptFileError(f"{self._where}: a block of rows can't be decoded: {type(e).__name__}: {e}") from e
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def without_logical_types(schema: Any) -> Any:
    """The Avro schema without logical types, so that the same bytes are decoded as plain numbers and bytes."""
    if isinstance(schema, list):
        return [without_logical_types(s) for s in schema]
    if isinstance(schema, dict):
        return {k: without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    return schema


class _SchemaReader:
    """Avro types, references resolved, as Arrow types; each is read once, however often it is referred to."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._read: dict[int, _Column] = {}

    def fields(self, record: dict[str, Any]) -> tuple[list[pa.Field], _Convert | None]:
        """The fields of a record with their ids, and the conversion of its values."""
        fields: list[pa.Field] = []
        converts: list[tuple[str, str, _Convert | None]] = []
        for f in record.get("fields", []):
            column, nullable = self.nullable(f.get("type"))
            name = f.get(FIELD_NAME, f.get("name"))
            nullable = nullable or pa.types.is_null(column.type)
            fields.append(_with_id(pa.field(name, column.type, nullable), f.get(FIELD_ID)))
            converts.append((f["name"], name, column.convert))
        if all(avro == name and c is None for avro, name, c in converts):
            return fields, None

        def convert(value: dict[str, Any]) -> dict[str, Any]:
            return {name: _apply(c, value[avro]) for avro, name, c in converts}

        return fields, convert

    def nullable(self, avro: Any) -> tuple[_Column, bool]:
        if not isinstance(avro, list):
            return self.column(avro), False
        others = [t for t in avro if t != "null" and not (isinstance(t, dict) and t.get("type") == "null")]
        if len(others) > 1:
            raise CorruptFileError(f"{self.where}: a union of more than null and one type is no Iceberg type: {avro}")
        return (self.column(others[0]) if others else _Column(pa.null())), True

    def column(self, avro: Any) -> _Column:
        if isinstance(avro, str):
            if avro in _PRIMITIVES:
                return _Column(_PRIMITIVES[avro])
            raise CorruptFileError(f"{self.where}: unknown Avro type {avro!r}")
        if isinstance(avro, list):
            return self.nullable(avro)[0]
        if not isinstance(avro, dict):
            raise CorruptFileError(f"{self.where}: {avro!r} is no Avro type")
        if id(avro) not in self._read:
            self._read[id(avro)] = self.described(avro)
        return self._read[id(avro)]

    def described(self, avro: dict[str, Any]) -> _Column:
        kind, logical = avro.get("type"), avro.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            scale = int(avro.get("scale", 0))
            return _Column(pa.decimal128(int(avro.get("precision", 38)), scale), lambda v: _decimal(v, scale))
        if isinstance(kind, str) and isinstance(logical, str) and (kind, logical) in _TIMES:
            t = _TIMES[kind, logical]
            zoned = pa.types.is_timestamp(t) and avro.get("adjust-to-utc", False)
            return _Column(pa.timestamp(t.unit, "UTC") if zoned else t)
        match kind:
            case "record":
                fields, convert = self.fields(avro)
                return _Column(pa.struct(fields), convert)
            case "array":
                return self.array(avro, is_map=logical == "map")
            case "map":
                value, nullable = self.nullable(avro.get("values"))
                key_field = _with_id(pa.field("key", pa.string(), nullable=False), avro.get("key-id"))
                value_field = _with_id(pa.field("value", value.type, nullable), avro.get("value-id"))
                return _Column(
                    pa.map_(key_field, value_field),
                    lambda v: [(k, _apply(value.convert, x)) for k, x in v.items()],
                )
            case "fixed":
                return _Column(pa.binary(int(avro.get("size", 0))))
            case _:
                return self.column(kind)

    def array(self, avro: dict[str, Any], *, is_map: bool) -> _Column:
        element, nullable = self.nullable(avro.get("items"))
        inner = element.convert
        if is_map and pa.types.is_struct(element.type) and element.type.num_fields == 2:
            key, value = element.type.field(0), element.type.field(1)

            def pairs(items: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
                return [(p[key.name], p[value.name]) for p in (_apply(inner, i) for i in items)]

            return _Column(pa.map_(key, value), pairs)
        field = _with_id(pa.field("element", element.type, nullable), avro.get("element-id"))
        return _Column(pa.list_(field), None if inner is None else lambda v: [_apply(inner, i) for i in v])


def _apply(convert: _Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _decimal(data: bytes, scale: int) -> Decimal:
    return unscaled_to_decimal(int.from_bytes(data, "big", signed=True), scale)


def _with_id(f: pa.Field, field_id: Any) -> pa.Field:
    return f if not isinstance(field_id, int) else f.with_metadata({FIELD_ID_KEY: str(field_id).encode()})
