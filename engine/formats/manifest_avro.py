"""Manifests: writing them, their header, and a decoder that is slow but plain.

Spec: Manifests (M1 to M9), Appendix A Avro. What is written is determined by the arguments, to the byte.
"""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import fastavro
import orjson
import pyarrow as pa
from attrs import frozen

from icecore.engine.errors import CorruptFileError, IcecoreError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.formats import avro_blocks, avro_schema, manifest_layout
from icecore.engine.formats.avro_blocks import AvroBlock, AvroHeader
from icecore.engine.formats.avro_schema import Stripper, array, field, int_map
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.manifest_layout import EntryLayout, PartitionColumn
from icecore.engine.spec import json_reader, single_value
from icecore.engine.spec.content_file import DataFileContent, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.partition import PartitionField, PartitionSpec, fields_from_list
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import DecimalType, PrimitiveType, UUIDType

BLOCK_BYTES = 64 * 1024
CONTENT_NAMES = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}
UNSUPPORTED_IN = {
    1: ("content_offset", "content_size_in_bytes", "first_row_id", "equality_ids", "referenced_data_file"),
    2: ("content_offset", "content_size_in_bytes", "first_row_id"),
    3: (),
}


@frozen
class ManifestHeader:
    """The header of a manifest. What the writer left out is None; `avro_schema` is its writer schema as JSON.

    `content` and `format_version` are data and the version that the columns show where the header lacks them; the
    manifest list knows the content.
    """

    schema: Schema | None
    schema_id: int | None
    spec_fields: tuple[PartitionField, ...] | None
    spec_id: int | None
    format_version: int
    content: ManifestContent
    avro_schema: Any


def write_manifest(
    entries: pa.Table,
    *,
    spec: PartitionSpec,
    schema: Schema,
    all_fields: Schema | None = None,
    content: ManifestContent,
    format_version: int,
    sync_marker: bytes,
    codec: str = "deflate",
    extra_metadata: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a manifest that holds canonical entries, all of one spec and one content kind.

    `schema` goes into the header; `all_fields` types partition values whose source column it lacks. `codec` is null,
    deflate, snappy or zstandard; `sync_marker` has 16 bytes. Raises ValidationError where an entry
    can't be in such a manifest (M2, M4, D1), UnsupportedFormatVersionError for a version that isn't 1 to 3.
    """
    if format_version not in UNSUPPORTED_IN:
        raise UnsupportedFormatVersionError(f"manifests are written in format version 1 to 3, not {format_version}")
    if spec.has_unknown_transform:
        raise ValidationError(f"partition spec {spec.spec_id} has an unknown transform, so nothing is written with it")
    types = [f.result_type(all_fields or schema) for f in spec.fields]
    written = entry_avro_schema(spec, types, format_version)
    to_row = _row_writer(spec, types, format_version, content)
    rows = (to_row(row) for batch in entries.to_batches(max_chunksize=_BATCH_ROWS) for row in batch.to_pylist())
    metadata: dict[str, str | bytes] = {
        "avro.schema": orjson.dumps(written),
        "schema": orjson.dumps(schema.to_dict()),
        "schema-id": str(schema.schema_id),
        "partition-spec": orjson.dumps(spec.fields_to_list()),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
        **({"content": CONTENT_NAMES[content]} if format_version > 1 else {}),
        **(extra_metadata or {}),
    }
    return avro_blocks.write_container(metadata, encode(written, rows), codec=codec, sync_marker=sync_marker)


def entry_avro_schema(spec: PartitionSpec, types: Iterable[PrimitiveType], format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest's entries (M4, M7), given the result types of the spec's fields."""
    head = [field("status", 0, "int"), field("snapshot_id", 1, "long", optional=format_version > 1)]
    if format_version > 1:
        head += [
            field("sequence_number", 3, "long", optional=True),
            field("file_sequence_number", 4, "long", optional=True),
        ]
    partition = {"type": "record", "name": "r102", "fields": _partition_fields(spec, types)}
    data_file = {"type": "record", "name": "r2", "fields": _data_file_fields(partition, format_version)}
    return {"type": "record", "name": "manifest_entry", "fields": [*head, field("data_file", 2, data_file)]}


def read_manifest_header(data: bytes, where: str = "manifest") -> ManifestHeader:
    """The header of a manifest. Raises CorruptFileError naming `where`."""
    header = avro_blocks.read_header(data, where)
    try:
        schema_text, fields_text = header.text("schema"), header.text("partition-spec")
        schema = None if schema_text is None else Schema.from_dict(json_reader.loads(schema_text, "schema"))
        return ManifestHeader(
            schema,
            _int(header, "schema-id"),
            None if fields_text is None else _spec_fields(fields_text),
            _int(header, "partition-spec-id"),
            _int(header, "format-version") or _version_of(header.schema),
            ManifestContent.DELETES if header.text("content") == "deletes" else ManifestContent.DATA,
            header.schema,
        )
    except (IcecoreError, ValueError) as e:
        raise CorruptFileError(f"{where}: the header can't be read: {e}") from e


def header_spec(header: AvroHeader, spec_id: int) -> PartitionSpec | None:
    """The partition spec in a header, None where it has none that can be read."""
    text = header.text("partition-spec")
    try:
        return None if text is None else PartitionSpec(_spec_fields(text), spec_id)
    except (IcecoreError, ValueError):
        return None


def decode_manifest_fastavro(
    data: bytes, *, where: str, spec_id: int, metadata_spec: PartitionSpec | None = None
) -> pa.Table:
    """The canonical entries of a manifest, read record by record: the reference, and the way for odd schemas.

    Fields are matched by id, by name where the writer left ids out. Raises CorruptFileError naming `where`.
    """
    header = avro_blocks.read_header(data, where)
    layout = manifest_layout.entry_layout(header.schema, metadata_spec or header_spec(header, spec_id), where)
    partition = [(c, _partition_encoder(c, where)) for c in layout.partition]
    try:
        rows = [_to_canonical(r, layout, partition, spec_id) for r in _records(data, layout, where)]
        table = pa.Table.from_pylist(rows, schema=ENTRY_SCHEMA)
    except IcecoreError:
        raise
    except Exception as e:  # whatever a broken file makes the decoder raise
        raise CorruptFileError(f"{where}: an entry can't be decoded: {type(e).__name__}: {e}") from e
    return check_entries(table, where)


def check_entries(table: pa.Table, where: str) -> pa.Table:
    """The table, if its required columns are filled and its codes are known; raises CorruptFileError otherwise."""
    for f in ENTRY_SCHEMA:
        if not f.nullable and table[f.name].null_count:
            raise CorruptFileError(f"{where}: {f.name} is required, found null in an entry")
    for name, known in (("status", ManifestEntryStatus), ("content", DataFileContent)):
        found = set(table[name].unique().to_pylist()) - set(known)
        if found:
            raise CorruptFileError(f"{where}: {name} must be one of {[int(k) for k in known]}, found {sorted(found)}")
    return table


def encode(written: dict[str, Any], rows: Iterable[Any]) -> Iterator[AvroBlock]:
    """Rows of raw values as uncompressed blocks of some 64 KiB."""
    raw = fastavro.parse_schema(Stripper().strip(avro_schema.resolve(written, "the Avro schema")))
    out = io.BytesIO()
    count = 0
    for row in rows:
        try:
            fastavro.schemaless_writer(out, raw, row)
        except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as e:
            raise ValidationError(f"a record does not fit the Avro schema {written['name']}: {e!r}: {row}") from e
        count += 1
        if out.tell() >= BLOCK_BYTES:
            yield AvroBlock(count, out.getvalue())
            out, count = io.BytesIO(), 0
    if count:
        yield AvroBlock(count, out.getvalue())


def _partition_fields(spec: PartitionSpec, types: Iterable[PrimitiveType]) -> list[dict[str, Any]]:
    taken: set[str] = set()
    out: list[dict[str, Any]] = []
    for f, result in zip(spec.fields, types, strict=True):
        written = field(f.name, f.field_id, avro_schema.avro_type(result, taken), optional=True)
        if any(written["name"] == other["name"] for other in out):
            written |= {"name": f"{written['name']}_{f.field_id}", avro_schema.FIELD_NAME: f.name}
        out.append(written)
    return out


def _data_file_fields(partition: dict[str, Any], format_version: int) -> list[dict[str, Any]]:
    head = [field("content", 134, "int")] if format_version > 1 else []
    head += [
        field("file_path", 100, "string"),
        field("file_format", 101, "string"),
        field("partition", 102, partition),
        field("record_count", 103, "long"),
        field("file_size_in_bytes", 104, "long"),
    ]
    if format_version == 1:
        head.append(field("block_size_in_bytes", 105, "long"))
    tail = [
        ("column_sizes", 108, int_map(117, 118, "long")),
        ("value_counts", 109, int_map(119, 120, "long")),
        ("null_value_counts", 110, int_map(121, 122, "long")),
        ("nan_value_counts", 137, int_map(138, 139, "long")),
        ("lower_bounds", 125, int_map(126, 127, "bytes")),
        ("upper_bounds", 128, int_map(129, 130, "bytes")),
        ("key_metadata", 131, "bytes"),
        ("split_offsets", 132, array(133, "long")),
        ("equality_ids", 135, array(136, "int")),
        ("sort_order_id", 140, "int"),
        ("first_row_id", 142, "long"),
        ("referenced_data_file", 143, "string"),
        ("content_offset", 144, "long"),
        ("content_size_in_bytes", 145, "long"),
    ]
    skipped = UNSUPPORTED_IN[format_version]
    return head + [field(n, i, t, optional=True) for n, i, t in tail if n not in skipped]


# So many entries at a time are Python objects.
_BATCH_ROWS = 2000
# Java writes this where v1 requires a block size that nobody uses.
_V1_BLOCK_SIZE = 64 * 1024 * 1024
_ALLOWED_CONTENT = {
    ManifestContent.DATA: (DataFileContent.DATA,),
    ManifestContent.DELETES: (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES),
}


def _row_writer(
    spec: PartitionSpec, types: list[PrimitiveType], format_version: int, content: ManifestContent
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    if format_version == 1 and content is not ManifestContent.DATA:
        raise ValidationError("format version 1 has no delete manifests")
    names = [f["name"] for f in _partition_fields(spec, types)]
    known = {f.field_id for f in spec.fields}
    to_avro: list[Callable[[bytes], Any]] = [partial(_raw_value, t) for t in types]

    def partition(row: dict[str, Any]) -> dict[str, Any]:
        found = dict(row["partition"] or ())
        if not found.keys() <= known:
            raise ValidationError(
                f"{row['file_path']}: spec {spec.spec_id} has no partition field {sorted(found.keys() - known)}"
            )
        values = [found.get(f.field_id) for f in spec.fields]
        return {n: None if v is None else c(v) for n, c, v in zip(names, to_avro, values, strict=True)}

    def write(row: dict[str, Any]) -> dict[str, Any]:
        _check_entry(row, spec.spec_id, format_version, content)
        data_file = {
            "content": row["content"],
            "file_path": row["file_path"],
            "file_format": row["file_format"],
            "partition": partition(row),
            "record_count": row["record_count"],
            "file_size_in_bytes": row["file_size_in_bytes"],
            "block_size_in_bytes": _V1_BLOCK_SIZE,
            **{name: _array(row[name], pairs=True) for name in manifest_layout.MAPS},
            **{name: _array(row[name], pairs=False) for name in manifest_layout.LISTS},
            **{name: row[name] for name in _PLAIN_OPTIONALS},
        }
        return {**{name: row[name] for name in _ENTRY_SCALARS}, "data_file": data_file}

    return write


_ENTRY_SCALARS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
_PLAIN_OPTIONALS = (
    "key_metadata",
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)


def _check_entry(row: dict[str, Any], spec_id: int, format_version: int, content: ManifestContent) -> None:
    def refuse(reason: str) -> None:
        raise ValidationError(f"{row['file_path']}: {reason}")

    if row["spec_id"] != spec_id:
        refuse(f"it has partition spec {row['spec_id']}, the manifest has {spec_id}")
    if row["content"] not in _ALLOWED_CONTENT[content]:
        refuse(f"a manifest of {CONTENT_NAMES[content]} can't hold content {row['content']}")
    if row["status"] not in set(ManifestEntryStatus):
        refuse(f"the status must be 0, 1 or 2, found {row['status']}")
    for name in UNSUPPORTED_IN[format_version]:
        if row[name] is not None:
            refuse(f"{name} can't be written in format version {format_version}")
    if format_version == 1 and row["snapshot_id"] is None:
        refuse("format version 1 needs the snapshot id in each entry")
    explicit = row["sequence_number"] is not None and row["file_sequence_number"] is not None
    if format_version > 1 and row["status"] != ManifestEntryStatus.ADDED and not explicit:
        refuse("an existing or deleted entry must carry its sequence numbers, they can't be inherited")
    if row["content"] == DataFileContent.EQUALITY_DELETES and not row["equality_ids"]:
        refuse("an equality delete file needs equality_ids")
    if row["content"] == DataFileContent.POSITION_DELETES and row["file_format"].upper() == "PUFFIN":
        needed = ("referenced_data_file", "content_offset", "content_size_in_bytes")
        if format_version < 3 or any(row[name] is None for name in needed):
            refuse("a deletion vector needs format version 3 and " + ", ".join(needed))


def _array(values: Any, *, pairs: bool) -> Any:
    """A list or a map as fastavro takes it; naming the branch of the union spares it a look at each item."""
    if values is None:
        return None
    return ("array", [{"key": k, "value": v} for k, v in values] if pairs else values)


def _raw_value(result: PrimitiveType, data: bytes) -> Any:
    value = single_value.from_bytes(result, data)
    match result:
        case DecimalType(precision=precision, scale=scale):
            unscaled = single_value.decimal_to_unscaled(value, scale)
            try:
                return unscaled.to_bytes(avro_schema.decimal_size(precision), "big", signed=True)
            except OverflowError as e:
                raise ValidationError(f"partition value {value} does not fit {result}") from e
        case UUIDType():
            return value.bytes
        case _:
            return value


def _int(header: AvroHeader, key: str) -> int | None:
    text = header.text(key)
    return None if text is None else int(text)


def _spec_fields(text: str) -> tuple[PartitionField, ...]:
    """The fields array of a header; some writers put the whole spec there (PT7)."""
    value = orjson.loads(text)
    return fields_from_list(value["fields"] if isinstance(value, dict) and "fields" in value else value)


def _version_of(schema: Any) -> int:
    text = orjson.dumps(schema)
    if b'"first_row_id"' in text:
        return 3
    return 2 if b'"sequence_number"' in text else 1


def _records(data: bytes, layout: EntryLayout, where: str) -> Iterator[dict[str, Any]]:
    raw = fastavro.parse_schema(layout.schema)
    for block in avro_blocks.read_blocks(data, avro_blocks.read_header(data, where), where):
        stream = io.BytesIO(block.data)
        for _ in range(block.count):
            yield fastavro.schemaless_reader(stream, raw, None)
        if stream.tell() != len(block.data):
            raise CorruptFileError(f"{where}: a block of {block.count} entries has bytes left after them")


def _to_canonical(
    record: dict[str, Any],
    layout: EntryLayout,
    partition: list[tuple[PartitionColumn, Callable[[Any], bytes]]],
    spec_id: int,
) -> dict[str, Any]:
    data_file = record["data_file"] or {}
    row = {**record, **data_file}
    values = row.get("partition") or {}
    out = {name: row.get(name) for name in ENTRY_SCHEMA.names if name in layout.columns}
    for name in manifest_layout.MAPS:
        out[name] = _map_entries(row.get(name))
    out["content"] = row.get("content") or 0
    out["file_format"] = row["file_format"].upper()
    out["spec_id"] = spec_id
    out["partition"] = [
        (c.field_id, None if values.get(c.name) is None else encoder(values[c.name])) for c, encoder in partition
    ]
    return out


def _map_entries(pairs: Any) -> list[tuple[int, Any]] | None:
    if pairs is None:
        return None
    found = [p for p in pairs if p is not None]
    return [(int(p["key"]), p["value"]) for p in found if p["key"] is not None and p["value"] is not None]


def _partition_encoder(column: PartitionColumn, where: str) -> Callable[[Any], bytes]:
    """From the raw Avro value of a partition field to its binary single value."""
    plain = column.avro_type or {"type": "union"}
    logical = plain.get("logicalType")
    match plain["type"], logical:
        case "null", _:
            return bytes
        case "boolean", _:
            return lambda v: b"\x01" if v else b"\x00"
        case "int", "time-millis":
            return lambda v: struct.pack("<q", v * 1000)
        case "int", _:
            return partial(struct.pack, "<i")
        case "long", "timestamp-millis" | "local-timestamp-millis":
            return lambda v: struct.pack("<q", v * 1000)
        case "long", _:
            return partial(struct.pack, "<q")
        case "float", _:
            return partial(struct.pack, "<f")
        case "double", _:
            return partial(struct.pack, "<d")
        case "string", "uuid":
            return lambda v: uuid.UUID(v).bytes
        case "string", _:
            return lambda v: v.encode()
        case "bytes" | "fixed", "decimal":
            return lambda v: single_value.signed_big_endian(int.from_bytes(v, "big", signed=True))
        case "bytes" | "fixed", _:
            return bytes
        case _:
            raise CorruptFileError(f"{where}: partition field {column.field_id} has Avro type {plain['type']}")
