"""Segments: the entries of one manifest, wide and typed, as an immutable Parquet file.

One row is one entry, in file order. Beside the canonical columns a segment has

    ordinal          int64, the position of the entry in its manifest
    row_offset       int64, rows of the preceding data files that take their first row id from the manifest (RL3)
    partition_key    binary, equal exactly where spec id and partition tuple are (SP5)
    part_<id>        the partition value, typed, for each field of the entries' specs
    lower_<id>, upper_<id>, values_<id>, nulls_<id>, nans_<id>
                     bounds, typed, and counts, int64, for each primitive field with any metric in the table

A metric that a file does not have is null, and so is a bound that can't be read or is NaN. Types: see `typed_values`.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen

from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.formats.binary_columns import Ints, from_matrix, list_positions, little_endian, select
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, METRICS
from icecore.engine.formats.typed_values import identity_bytes, typed_values
from icecore.engine.spec.content_file import DataFileContent, ManifestContent, ManifestEntryStatus, ManifestFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import PrimitiveType, walk
from icecore.engine.storage import Storage, translated

# Part of each segment's name: to be raised when what a segment holds changes.
SEGMENT_VERSION = 2
# Stands in the footer's key-value metadata, followed by the checksum of all other bytes of the file.
CHECKSUM_KEY = "icecore.crc32"
_CHECKSUM_MARK = b"crc32 of the rest="
_NO_CHECKSUM = b"00000000"
ROW_GROUP_ROWS = 122_880
COUNT_MAPS = {"values": "value_counts", "nulls": "null_value_counts", "nans": "nan_value_counts"}
BOUND_MAPS = {"lower": "lower_bounds", "upper": "upper_bounds"}


_FIELDS = {
    **{f.name: f for f in ENTRY_SCHEMA},
    **{name: pa.field(name, pa.int64(), nullable=False) for name in ("ordinal", "row_offset")},
    "partition_key": pa.field("partition_key", pa.binary(), nullable=False),
}


def widen(entries: pa.Table, *, schema: Schema, specs: Mapping[int, PartitionSpec]) -> pa.Table:
    """The wide form of canonical entries of one manifest, in their order.

    Metrics of fields that `schema` doesn't have stay in the canonical maps only. Raises ValidationError where an entry
    has a spec that is not in `specs`, or specs of the entries give one partition field id two types.
    """
    table = entries.combine_chunks()
    columns = {name: _chunk(table, name) for name in ENTRY_SCHEMA.names}
    columns["ordinal"] = pa.array(np.arange(len(table), dtype=np.int64))
    columns["row_offset"] = _row_offsets(table)
    columns |= _partition_columns(columns, schema, specs)
    columns |= _metric_columns(columns, schema)
    return pa.Table.from_arrays(
        list(columns.values()), schema=pa.schema([_FIELDS.get(name, (name, c.type)) for name, c in columns.items()])
    )


def inherit(table: pa.Table, manifest: ManifestFile) -> pa.Table:
    """Wide or canonical entries of a manifest with what they inherit from its row in the manifest list.

    Sequence numbers are inherited where null by added entries, and by all where the manifest's is 0 (M2, M3); snapshot
    ids where null. Data files get first row ids from the manifest's (RL3) and none where it has none. Raises
    CorruptFileError where a live entry that isn't new lacks its data sequence number.
    """
    added = pc.equal(table["status"], int(ManifestEntryStatus.ADDED))
    heirs = added if manifest.sequence_number else pa.scalar(True)
    inherited = pc.if_else(heirs, pa.scalar(manifest.sequence_number, pa.int64()), pa.scalar(None, pa.int64()))
    filled = {
        "sequence_number": pc.coalesce(table["sequence_number"], inherited),
        "file_sequence_number": pc.coalesce(table["file_sequence_number"], inherited),
        "snapshot_id": pc.coalesce(table["snapshot_id"], pa.scalar(manifest.added_snapshot_id, pa.int64())),
        "first_row_id": _first_row_ids(table, manifest),
    }
    _check_sequence_numbers(table, filled["sequence_number"], manifest.manifest_path)
    for name, column in filled.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(index), column)
    return table


def inherit_sequence_numbers(table: pa.Table, manifest: ManifestFile) -> pa.Table:
    """As `inherit`, but first row ids stay as written: what a segment may keep, whatever list names its manifest."""
    index = table.schema.get_field_index("first_row_id")
    return inherit(table, manifest).set_column(index, table.schema.field(index), table["first_row_id"])


def typing_key(schema: Schema, spec: PartitionSpec) -> str:
    """What the types and the set of columns of a segment follow from, as text: a part of its name.

    All primitive fields of the schema by id and type, and the fields of the manifest's spec. A segment made when a
    column had another type, or did not exist, thus has another name and is never read for this schema.
    """
    fields = sorted((f.field_id, str(f.field_type)) for f in walk(schema.fields) if f.field_type.is_primitive)
    partition = [(f.field_id, str(f.transform), str(f.result_type(schema))) for f in spec.fields]
    return json.dumps([SEGMENT_VERSION, spec.spec_id, partition, fields])


def segment_name(manifest_path: str, manifest_length: int, typing: str) -> str:
    """The file name of a manifest's segment; `typing` is from `typing_key`."""
    digest = hashlib.sha256(json.dumps([manifest_path, manifest_length, typing]).encode())
    return f"{digest.hexdigest()[:40]}.parquet"


def write_segment(path: str, wide: pa.Table, storage: Storage | None = None) -> None:
    """Puts a segment in place: a reader sees a whole file or none."""
    sink = pa.BufferOutputStream()
    metadata = {**(wide.schema.metadata or {}), CHECKSUM_KEY: _CHECKSUM_MARK + _NO_CHECKSUM}
    pq.write_table(wide.replace_schema_metadata(metadata), sink, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    data = bytearray(sink.getvalue())
    at = data.rfind(_CHECKSUM_MARK) + len(_CHECKSUM_MARK)
    data[at : at + len(_NO_CHECKSUM)] = _checksum(data, at)
    (storage or Storage()).write_atomic(path, bytes(data))


def read_segment(path: str, columns: Iterable[str] | None = None, storage: Storage | None = None) -> pa.Table:
    """The table of a segment, or those of the named columns that it has, in that order.

    Raises MissingFileError where there is none, CorruptFileError where it can't be read or any byte of it was changed.
    """
    data = (storage or Storage()).read_bytes(path)
    at = data.rfind(_CHECKSUM_MARK) + len(_CHECKSUM_MARK)
    if at < len(_CHECKSUM_MARK) or data[at : at + len(_NO_CHECKSUM)] != _checksum(data, at):
        raise CorruptFileError(f"{path} is not a segment that can be read: its checksum is not that of its bytes")
    with translated(path, "read"):
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            if columns is None:
                return file.read()
            known = set(file.schema_arrow.names)
            wanted = [c for c in columns if c in known]
            return file.read(wanted).select(wanted)
        except (pa.ArrowInvalid, OSError) as e:
            raise CorruptFileError(f"{path} is not a segment that can be read: {e}") from e


def _checksum(data: bytes | bytearray, at: int) -> bytes:
    """The checksum of all bytes but those at which it stands, as eight hexadecimal digits."""
    view = memoryview(data)
    return b"%08x" % zlib.crc32(view[at + len(_NO_CHECKSUM) :], zlib.crc32(view[:at]))


def _chunk(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _row_offsets(table: pa.Table) -> pa.Array:
    """Rows of the preceding live data files without a first row id of their own."""
    takes = pc.and_(
        pc.and_(
            pc.equal(table["content"], int(DataFileContent.DATA)),
            pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED)),
        ),
        pc.is_null(table["first_row_id"]),
    )
    rows = np.where(takes.to_numpy(), table["record_count"].to_numpy(), 0).astype(np.int64)
    return pa.array(np.cumsum(rows) - rows)


def _first_row_ids(table: pa.Table, manifest: ManifestFile) -> pa.ChunkedArray:
    if manifest.first_row_id is None or manifest.content is not ManifestContent.DATA:
        return pa.chunked_array([pa.nulls(len(table), pa.int64())])
    offsets = table["row_offset"] if "row_offset" in table.column_names else _row_offsets(table)
    live = pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED))
    assigned = pc.if_else(live, pc.add(offsets, manifest.first_row_id), pa.scalar(None, pa.int64()))
    return pc.coalesce(table["first_row_id"], assigned)


def _check_sequence_numbers(table: pa.Table, numbers: pa.ChunkedArray, where: str) -> None:
    lacking = pc.and_(pc.is_null(numbers), pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED)))
    if pc.any(lacking).as_py():
        path = table["file_path"].filter(lacking)[0].as_py()
        raise CorruptFileError(f"{where}: the existing entry of {path} must carry its sequence number, found none")


@frozen
class _Entries:
    """The entries of a map column: the rows that each key is in, and where its values are."""

    items: pa.Array
    by_key: Mapping[int, tuple[Ints, Ints]]
    count: int

    def column(self, key: int) -> pa.Array:
        """The values of one key, null in rows that lack it."""
        index = np.zeros(self.count, np.int64)
        missing = np.ones(self.count, np.bool_)
        if key in self.by_key:
            rows, positions = self.by_key[key]
            index[rows], missing[rows] = positions, False
        return self.items.take(pa.array(index, mask=missing))


def _entries(column: pa.MapArray) -> _Entries:
    counts, positions = list_positions(column)
    rows = np.repeat(np.arange(len(column)), counts)
    keys = select(column.keys, positions).to_numpy()
    return _Entries(column.items, dict(_by_key(keys, rows, positions, len(column))), len(column))


def _by_key(keys: Ints, rows: Ints, positions: Ints, count: int) -> Iterator[tuple[int, tuple[Ints, Ints]]]:
    if not len(keys):
        return
    width = len(keys) // count
    if width and len(keys) == width * count and (keys.reshape(count, width) == keys[:width]).all():
        # Most manifests: each row has the same keys in the same order.
        for i in range(width):
            yield int(keys[i]), (rows[i::width], positions[i::width])
        return
    # Numbers of 16 bits are sorted by radix, so in linear time.
    small = len(keys) > 0 and keys.min() >= 0 and keys.max() < 2**15
    order = np.argsort(keys.astype(np.int16) if small else keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    for start, end in zip(starts, np.r_[starts[1:], len(keys)], strict=True):
        chosen = order[start:end]
        yield int(ordered[start]), (rows[chosen], positions[chosen])


def _metric_columns(columns: Mapping[str, pa.Array], schema: Schema) -> dict[str, pa.Array]:
    maps = {name: _entries(columns[name]) for name in METRICS}
    out = {}
    for field_id in sorted({key for entries in maps.values() for key in entries.by_key}):
        found = schema.get_field(field_id)
        if found is None or not found.field_type.is_primitive:
            continue
        primitive: PrimitiveType = found.field_type  # type: ignore[assignment]  # checked by is_primitive
        for prefix, name in BOUND_MAPS.items():
            out[f"{prefix}_{field_id}"] = typed_values(primitive, maps[name].column(field_id), nan_is_null=True)
        for prefix, name in COUNT_MAPS.items():
            out[f"{prefix}_{field_id}"] = maps[name].column(field_id)
    return out


def _partition_columns(
    columns: Mapping[str, pa.Array], schema: Schema, specs: Mapping[int, PartitionSpec]
) -> dict[str, pa.Array]:
    entries = _entries(columns["partition"])
    spec_ids = columns["spec_id"]
    out: dict[str, pa.Array] = {}
    key = pa.nulls(len(spec_ids), pa.binary())
    for spec_id in sorted(spec_ids.unique().to_pylist()):
        if spec_id not in specs:
            raise ValidationError(f"entries have partition spec {spec_id}, there are only {sorted(specs)}")
        pieces = [from_matrix(np.tile(np.frombuffer(spec_id.to_bytes(4, "big"), np.uint8), (len(spec_ids), 1)))]
        for f in specs[spec_id].fields:
            raw = entries.column(f.field_id)
            typed = typed_values(f.result_type(schema), raw)
            name = f"part_{f.field_id}"
            if name in out and out[name].type != typed.type:
                raise ValidationError(f"partition field id {f.field_id} has types {out[name].type} and {typed.type}")
            out[name] = typed
            pieces += _key_pieces(typed, raw)
        of_spec = pc.binary_join_element_wise(*pieces, b"")
        key = pc.if_else(pc.equal(spec_ids, spec_id), of_spec, key)
    return {"partition_key": key, **out}


def _key_pieces(typed: pa.Array, raw: pa.Array) -> list[pa.Array]:
    """What a partition value adds to the key: whether there is one, its length, its bytes.

    Values that can't be read as their type count as they are.
    """
    data = pc.coalesce(identity_bytes(typed), raw).fill_null(b"")
    there = raw.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    lengths = pc.binary_length(data).to_numpy(zero_copy_only=False)
    return [from_matrix(there[:, None]), from_matrix(little_endian(lengths)), data]
