"""Manifests: their bytes, their header, and a decoder that is slow but plain.

Spec: Manifests (M1 to M9), Appendix A Avro. What is written is determined by the arguments, to the byte.
"""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.common import json_reader
from icecore.engine.errors import CorruptFileError, IcecoreError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.formats import avro_blocks, manifest_layout
from icecore.engine.formats.avro_blocks import BLOCK_BYTES, AvroBlock, AvroHeader
from icecore.engine.formats.binary_columns import to_arrays
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, METRICS
from icecore.engine.formats.entry_encoding import encode_entries
from icecore.engine.formats.manifest_layout import EntryLayout, PartitionColumn
from icecore.engine.formats.manifest_schema import UNSUPPORTED_IN, entry_avro_schema
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import (
    ALLOWED_CONTENT,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntryStatus,
)
from icecore.engine.spec.partition import PartitionField, PartitionSpec, fields_from_list
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import PrimitiveType

_FORMATS = frozenset(map(str, FileFormat))
CONTENT_NAMES = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}


@frozen
class ManifestHeader:
    """The header of a manifest. Values that the writer left out are None; `avro_schema` is the writer schema as JSON.

    If the header lacks them, `content` is data and `format_version` is told by the columns; the manifest list has the
    true content.
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
    _check_entries(entries, spec, format_version, content)
    types = [f.result_type(all_fields or schema) for f in spec.fields]
    written = entry_avro_schema(spec, types, format_version)
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
    blocks = _blocks(entries, written, spec, types)
    return avro_blocks.write_container(metadata, blocks, codec=codec, sync_marker=sync_marker)


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


def naming_specs(header: AvroHeader, spec_id: int, metadata_spec: PartitionSpec | None) -> tuple[PartitionSpec, ...]:
    """The specs that may give ids to partition fields, the surest first: the header's if it has field ids (PT1)."""
    own = header_spec(header, spec_id)
    found = [s for s in (own, metadata_spec) if s is not None]
    is_told = own is not None and (header.text("partition-spec") or "").count('"field-id"') >= len(own.fields)
    return tuple(found if is_told else reversed(found))


def decode_manifest_fastavro(
    data: bytes, *, where: str, spec_id: int, metadata_spec: PartitionSpec | None = None
) -> pa.Table:
    """The canonical entries of a manifest, decoded record by record: the reference decoder, used for odd schemas.

    Fields are matched by id, by name where the writer left ids out. Raises CorruptFileError naming `where`.
    """
    header = avro_blocks.read_header(data, where)
    layout = manifest_layout.entry_layout(header.schema, naming_specs(header, spec_id, metadata_spec), where)
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
    """The table, with its required columns checked to be filled and its codes to be known. Raises CorruptFileError."""
    for f in ENTRY_SCHEMA:
        if not f.nullable and table[f.name].null_count:
            raise CorruptFileError(f"{where}: {f.name} is required, found null in an entry")
    for name, codes in (("status", ManifestEntryStatus), ("content", DataFileContent)):
        unknown = set(table[name].unique().to_pylist()) - set(codes)
        if unknown:
            raise CorruptFileError(f"{where}: {name} must be one of {[int(k) for k in codes]}, found {sorted(unknown)}")
    formats = set(table["file_format"].unique().to_pylist())
    if strange := sorted(f for f in formats if f.upper() not in _FORMATS):
        raise CorruptFileError(f"{where}: file_format must be one of {', '.join(sorted(_FORMATS))}, found {strange}")
    return table


def _blocks(
    entries: pa.Table, written: dict[str, Any], spec: PartitionSpec, types: Sequence[PrimitiveType]
) -> Iterator[AvroBlock]:
    """The entries as uncompressed blocks, each ended by the entry that brings it to `BLOCK_BYTES`."""
    head, data_file = written["fields"][:-1], written["fields"][-1]["type"]["fields"]
    required = frozenset(f["name"] for f in (*head, *data_file) if not isinstance(f["type"], list))
    names = [f["name"] for f in head], [f["name"] for f in data_file]
    parts: list[bytes] = []
    size = count = 0
    for batch in entries.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
        offsets, data = to_arrays(encode_entries(batch, *names, required, spec, types))
        start = 0
        while start < len(batch):
            full = int(np.searchsorted(offsets, offsets[start] + BLOCK_BYTES - size))
            end = min(full, len(batch))
            parts.append(data[offsets[start] : offsets[end]].tobytes())
            count, size = count + end - start, size + len(parts[-1])
            if size >= BLOCK_BYTES:
                yield AvroBlock(count, b"".join(parts))
                parts, size, count = [], 0, 0
            start = end
    if count:
        yield AvroBlock(count, b"".join(parts))


# So many entries are encoded at a time, which bounds the memory that wide tables need.
_BATCH_ROWS = 4096


def _check_entries(entries: pa.Table, spec: PartitionSpec, format_version: int, content: ManifestContent) -> None:
    """Raises ValidationError where a manifest of the kind can't hold an entry, naming its file."""
    if format_version == 1 and content is not ManifestContent.DATA:
        raise ValidationError("format version 1 has no delete manifests")
    if spec.has_unknown_transform:
        raise ValidationError(f"partition spec {spec.spec_id} has an unknown transform, so nothing is written with it")
    if content is ManifestContent.DATA and _are_added_data_files(entries, spec.spec_id, format_version):
        return
    for wrong, name, reason in _faults(entries, spec.spec_id, format_version, content):
        if pc.any(wrong).as_py():
            found = entries.select(["file_path", name]).filter(wrong)
            path, value = found["file_path"][0].as_py(), found[name][0].as_py()
            raise ValidationError(f"{path}: {reason}, found {name} {value!r}")


def _are_added_data_files(entries: pa.Table, spec_id: int, format_version: int) -> bool:
    """Whether entries only add data files, with no column that the version lacks, and so have none of the faults."""
    told = {"status": ManifestEntryStatus.ADDED, "content": DataFileContent.DATA, "spec_id": spec_id}
    if any(entries[name].unique().to_pylist() != [value] for name, value in told.items()):
        return False
    if any(entries[name].null_count < len(entries) for name in UNSUPPORTED_IN[format_version]):
        return False
    return format_version > 1 or not entries["snapshot_id"].null_count


def _faults(
    entries: pa.Table, spec_id: int, format_version: int, content: ManifestContent
) -> Iterator[tuple[pa.ChunkedArray, str, str]]:
    """The faults that entries may have (M2, M4, D1): a mask of them, the column that shows it, what is expected."""

    def is_null(name: str) -> pa.ChunkedArray:
        return pc.is_null(entries[name])

    def differs(name: str, allowed: Iterable[int]) -> pa.ChunkedArray:
        return pc.invert(pc.is_in(entries[name], pa.array([int(a) for a in allowed], entries[name].type)))

    yield differs("spec_id", [spec_id]), "spec_id", f"the manifest is of partition spec {spec_id}"
    kind = CONTENT_NAMES[content]
    yield differs("content", ALLOWED_CONTENT[content]), "content", f"the manifest is one of {kind}"
    yield differs("status", ManifestEntryStatus), "status", "the status must be 0, 1 or 2"
    is_puffin = pc.equal(pc.utf8_upper(entries["file_format"]), str(FileFormat.PUFFIN))
    is_vector = pc.and_(is_puffin, pc.equal(entries["content"], int(DataFileContent.POSITION_DELETES)))
    if format_version < 3:
        yield is_vector, "file_format", "a deletion vector needs format version 3"
    for name in UNSUPPORTED_IN[format_version]:
        yield pc.is_valid(entries[name]), name, f"format version {format_version} has no {name}"
    if format_version == 1:
        yield is_null("snapshot_id"), "snapshot_id", "format version 1 needs the snapshot id in each entry"
    else:
        old = pc.not_equal(entries["status"], int(ManifestEntryStatus.ADDED))
        # The file sequence number may be null: early v2 writers wrote none.
        yield pc.and_(old, is_null("sequence_number")), "sequence_number", "only an added entry inherits it"
    no_ids = pc.equal(pc.fill_null(pc.list_value_length(entries["equality_ids"]), 0), 0)
    is_equality = pc.equal(entries["content"], int(DataFileContent.EQUALITY_DELETES))
    yield pc.and_(is_equality, no_ids), "equality_ids", "an equality delete file needs equality_ids"
    for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"):
        yield pc.and_(is_vector, is_null(name)), name, f"a deletion vector needs {name}"


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
    for name in METRICS:
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


def _partition_encoder(column: PartitionColumn, where: str) -> Callable[[Any], bytes]:  # noqa: C901  # one case a type
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
