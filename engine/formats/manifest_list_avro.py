"""The bytes of manifest lists, and the manifests that they list.

Spec: Manifest Lists (L1, L2), First Row ID Assignment (RL2), Appendix A Avro. What is written is determined by the
arguments, to the byte.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import fastavro
import orjson

from icecore.engine.errors import CorruptFileError, IcecoreError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.formats import avro_blocks, avro_schema
from icecore.engine.formats.avro_blocks import BLOCK_BYTES, AvroBlock
from icecore.engine.formats.avro_schema import FIELD_ID, Stripper, array, field
from icecore.engine.formats.manifest_layout import names_by_field
from icecore.engine.spec.content_file import FieldSummary, ManifestContent, ManifestFile
from icecore.engine.spec.types import IntegerType

MANIFEST_FILE_IDS = {
    500: "manifest_path",
    501: "manifest_length",
    502: "partition_spec_id",
    517: "content",
    515: "sequence_number",
    516: "min_sequence_number",
    503: "added_snapshot_id",
    504: "added_files_count",
    505: "existing_files_count",
    506: "deleted_files_count",
    512: "added_rows_count",
    513: "existing_rows_count",
    514: "deleted_rows_count",
    507: "partitions",
    519: "key_metadata",
    520: "first_row_id",
}
SUMMARY_IDS = {509: "contains_null", 518: "contains_nan", 510: "lower_bound", 511: "upper_bound"}
COUNTS = (
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
)
_INTS = ("partition_spec_id", "added_files_count", "existing_files_count", "deleted_files_count")
_STRINGS = ("manifest_path",)
_BINARIES = ("key_metadata",)
_ROWS_KEPT = 20_000
RECORD_NAME = "manifest_file"
_REQUIRED = ("manifest_path", "manifest_length", "partition_spec_id")


def write_manifest_list(
    manifests: Sequence[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    sync_marker: bytes,
    first_row_id: int | None = None,
    codec: str = "deflate",
) -> bytes:
    """The bytes of a manifest list; `first_row_id` is the snapshot's (v3).

    Raises ValidationError where a manifest lacks what the version requires (L1), UnsupportedFormatVersionError for a
    version that isn't 1 to 3.
    """
    if format_version not in (1, 2, 3):
        raise UnsupportedFormatVersionError(f"manifest lists are written in version 1 to 3, not {format_version}")
    text, _ = _schema_to_write(format_version)
    metadata: dict[str, str | bytes] = {
        "avro.schema": text,
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
    }
    if format_version > 1:
        metadata["sequence-number"] = str(sequence_number)
    if format_version > 2:
        if first_row_id is None:
            raise ValidationError("a manifest list of format version 3 needs the snapshot's first_row_id")
        metadata["first-row-id"] = str(first_row_id)
    metadata["format-version"] = str(format_version)
    rows = (_encoded_row(m, format_version) for m in manifests)
    return avro_blocks.write_container(metadata, _blocks(rows), codec=codec, sync_marker=sync_marker)


def list_avro_schema(format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest list (L1, M7)."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            field("contains_null", 509, "boolean"),
            field("contains_nan", 518, "boolean", optional=True),
            field("lower_bound", 510, "bytes", optional=True),
            field("upper_bound", 511, "bytes", optional=True),
        ],
    }
    v1 = format_version == 1
    fields = [
        field("manifest_path", 500, "string"),
        field("manifest_length", 501, "long"),
        field("partition_spec_id", 502, "int"),
    ]
    if not v1:
        fields += [
            field("content", 517, "int"),
            field("sequence_number", 515, "long"),
            field("min_sequence_number", 516, "long"),
        ]
    fields += [
        field("added_snapshot_id", 503, "long"),
        field("added_files_count", 504, "int", optional=v1),
        field("existing_files_count", 505, "int", optional=v1),
        field("deleted_files_count", 506, "int", optional=v1),
        field("added_rows_count", 512, "long", optional=v1),
        field("existing_rows_count", 513, "long", optional=v1),
        field("deleted_rows_count", 514, "long", optional=v1),
        field("partitions", 507, array(508, summary), optional=True),
        field("key_metadata", 519, "bytes", optional=True),
    ]
    if format_version > 2:
        fields.append(field("first_row_id", 520, "long", optional=True))
    return {"type": "record", "name": RECORD_NAME, "fields": fields}


def read_manifest_list(data: bytes, where: str) -> tuple[ManifestFile, ...]:
    """The manifests of a list of any version; what a v1 writer left out takes its default (G2), counts stay None.

    Fields are matched by id, by name where the writer left ids out. Raises CorruptFileError naming `where`.
    """
    header = avro_blocks.read_header(data, where)
    schema = _reader_schema(header.schema, where)
    out: list[ManifestFile] = []
    try:
        raw = fastavro.parse_schema(schema)
        known = _known_manifests(header.metadata["avro.schema"])
        for block in avro_blocks.read_blocks(data, header, where):
            stream, start = io.BytesIO(block.data), 0
            for _ in range(block.count):
                row, end = fastavro.schemaless_reader(stream, raw, None), stream.tell()
                encoded = block.data[start:end]
                manifest = known.get(encoded)
                if manifest is None:
                    manifest = _manifest(row, where)
                    if len(known) >= _ROWS_KEPT:
                        known.clear()
                    known[encoded] = manifest
                out.append(manifest)
                start = end
            if start != len(block.data):
                raise CorruptFileError(f"{where}: a block of {block.count} manifests has bytes left after them")
    except IcecoreError:
        raise
    except Exception as e:  # whatever a broken file makes the decoder raise
        raise CorruptFileError(f"{where}: a manifest can't be decoded: {type(e).__name__}: {e}") from e
    return tuple(out)


@lru_cache(maxsize=4)
def _known_manifests(schema: bytes) -> dict[bytes, ManifestFile]:
    """Decoded manifests by their records, most of which a table's lists have again, so that they share one value."""
    return {}


@cache
def _schema_to_write(format_version: int) -> tuple[bytes, Any]:
    """The schema of a list as its header has it, and as the encoder needs it."""
    written = list_avro_schema(format_version)
    where = "the Avro schema"
    return orjson.dumps(written), fastavro.parse_schema(Stripper(where).strip(avro_schema.resolve(written, where)))


def _blocks(rows: Iterable[bytes]) -> Iterator[AvroBlock]:
    """The rows as uncompressed blocks of some 64 KiB."""
    out = bytearray()
    count = 0
    for row in rows:
        out += row
        count += 1
        if len(out) >= BLOCK_BYTES:
            yield AvroBlock(count, bytes(out))
            out, count = bytearray(), 0
    if count:
        yield AvroBlock(count, bytes(out))


@lru_cache(maxsize=_ROWS_KEPT)
def _encoded_row(m: ManifestFile, format_version: int) -> bytes:
    """The encoded record of a manifest; cached, since the lists of a table have most records again."""
    row, out = _row(m, format_version), io.BytesIO()
    try:
        fastavro.schemaless_writer(out, _schema_to_write(format_version)[1], row)
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as e:
        raise ValidationError(f"a manifest does not fit the Avro schema of a list: {e!r}: {row}") from e
    return out.getvalue()


def _row(m: ManifestFile, format_version: int) -> dict[str, Any]:
    def refuse(reason: str) -> None:
        raise ValidationError(f"{m.manifest_path}: {reason} in a manifest list of format version {format_version}")

    if m.added_snapshot_id is None:
        refuse("added_snapshot_id is required")
    if format_version == 1 and m.content is not ManifestContent.DATA:
        refuse("a delete manifest can't be")
    if format_version > 1:
        for name in COUNTS:
            if getattr(m, name) is None:
                refuse(f"{name} is required")
    for name in _INTS:
        value = getattr(m, name)
        if value is not None and not IntegerType.min <= value <= IntegerType.max:
            refuse(f"{name} {value} does not fit an int")
    is_data = m.content is ManifestContent.DATA
    if format_version > 2 and is_data and m.first_row_id is None:
        refuse("first_row_id is required of a data manifest")
    row = {name: getattr(m, name) for name in MANIFEST_FILE_IDS.values()}
    row["first_row_id"] = m.first_row_id if is_data else None
    partitions = None if m.partitions is None else ("array", [_summary_row(p) for p in m.partitions])
    return {**row, "content": int(m.content), "partitions": partitions}


def _summary_row(p: FieldSummary) -> dict[str, Any]:
    return {name: getattr(p, name) for name in SUMMARY_IDS.values()}


# Names of the counts before they were renamed; they matter only where the ids are missing.
_OLD_NAMES = {f"{kind}_data_files_count": f"{kind}_files_count" for kind in ("added", "existing", "deleted")}


def _reader_schema(writer_schema: Any, where: str) -> dict[str, Any]:
    """The stripped writer schema with canonical names; unknown fields get names that nobody looks at."""
    plain = avro_schema.resolve(writer_schema, where)
    stripper = Stripper(where)

    def record(plain_record: Any, known: Mapping[int, str]) -> dict[str, Any]:
        fields = plain_record["fields"]
        names = names_by_field(fields, known, where)
        for i, f in enumerate(fields):
            name = _OLD_NAMES.get(f["name"])
            if names[i] is None and FIELD_ID not in f and name in known.values() and name not in names:
                names[i] = name
        return stripper.record(
            [(n or f"x{i}", column(n, f["type"])) for i, (n, f) in enumerate(zip(names, fields, strict=True))]
        )

    def column(name: str | None, t: Any) -> Any:
        return nested(t) if name == "partitions" else stripper.strip(t)

    def nested(t: Any) -> Any:
        if isinstance(t, list):
            return [nested(b) for b in t]
        if t["type"] == "array":
            return stripper.array(nested(t["items"]))
        return record(t, SUMMARY_IDS) if t["type"] == "record" else stripper.strip(t)

    if not isinstance(plain, dict) or plain["type"] != "record":
        raise CorruptFileError(f"{where} is not a manifest list: its Avro schema must be a record")
    schema = record(plain, MANIFEST_FILE_IDS)
    found = {f["name"] for f in schema["fields"]}
    missing = [name for name in _REQUIRED if name not in found]
    if missing:
        raise CorruptFileError(f"{where} is not a manifest list: its Avro schema lacks {', '.join(missing)}")
    return schema


def _manifest(row: Any, where: str) -> ManifestFile:
    values = {name: row.get(name) for name in MANIFEST_FILE_IDS.values()}
    for name, value in values.items():
        kind = str if name in _STRINGS else bytes if name in _BINARIES else list if name == "partitions" else int
        if value is None and name in _REQUIRED:
            raise CorruptFileError(f"{where}: {name} is required, found null")
        if value is not None and not isinstance(value, kind):
            raise CorruptFileError(f"{where}: {name} must be {kind.__name__}, found {type(value).__name__}")
    content = values["content"] or 0
    if content not in set(ManifestContent):
        raise CorruptFileError(f"{where}: the content of a manifest must be 0 or 1, found {content}")
    return ManifestFile(
        **{
            **values,
            "content": ManifestContent(content),
            "sequence_number": values["sequence_number"] or 0,
            "min_sequence_number": values["min_sequence_number"] or 0,
            "partitions": _summaries(values["partitions"], where),
        }
    )


def _summaries(rows: Any, where: str) -> tuple[FieldSummary, ...] | None:
    if rows is None:
        return None
    out = []
    for row in rows:
        if not isinstance(row, dict):
            raise CorruptFileError(f"{where}: a partition summary must be a record, found {type(row).__name__}")
        nulls, *others = (row.get(name) for name in SUMMARY_IDS.values())
        # Without contains_null a scan must not skip nulls, so there are some if anything else is told. If nothing is,
        # there must be none: nulls without bounds would say that there are no other values (L1).
        has_others = any(value is not None for value in others)
        out.append(FieldSummary(nulls is not False if has_others else bool(nulls), *others))
    return tuple(out)
