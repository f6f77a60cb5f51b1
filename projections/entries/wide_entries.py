"""Wide entries: entries of manifests, typed, with a column for each metric of each field.

One row is one entry, in file order. Beside the canonical columns there are

    ordinal          int64, the position of the entry in its manifest
    row_offset       int64, rows of the preceding data files that take their first row id from the manifest (RL3)
    partition_key    binary, equal exactly where spec id and partition tuple are: see `partition_key`
    part_<id>        the partition value, typed, for each field of the entries' specs
    lower_<id>, upper_<id>, values_<id>, nulls_<id>, nans_<id>
                     bounds, typed, and counts, int64, for each primitive field; no column where no entry has such

A metric that a file does not have is null, and so is a bound that can't be read, is NaN or may be of another unit, and
bounds that are the wrong way round. Types: see `typed_values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen

from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.expression.bind import is_comparable
from icecore.engine.formats import arrays
from icecore.engine.formats.binary_columns import Ints, Places
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.typed_values import typed_values
from icecore.engine.spec.content_file import (
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
)
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform, VoidTransform
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    DoubleType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)
from icecore.projections.entries.keyed_values import KeyedValues, keyed_values
from icecore.projections.entries.partition_key import spec_piece, value_pieces
from icecore.projections.entries.partition_tuples import chunk_of

COUNT_MAPS = {"values": "value_counts", "nulls": "null_value_counts", "nans": "nan_value_counts"}
BOUND_MAPS = {"lower": "lower_bounds", "upper": "upper_bounds"}
# The last microsecond that a nanosecond tells, and the last millisecond of the year 9999.
_MOST_US = (2**63 - 1) // 1000
_MOST_MS = 253_402_300_799_999

_FIELDS = {
    **{f.name: f for f in ENTRY_SCHEMA},
    **{name: pa.field(name, pa.int64(), nullable=False) for name in ("ordinal", "row_offset")},
    "partition_key": pa.field("partition_key", pa.binary(), nullable=False),
}


@frozen
class WideEntries:
    """Wide entries, with the types that tell whether they still fit when schemas and specs have changed.

    `types` are the Iceberg types of the bounds and partition columns; `unreadable` are those among them with a value
    that does not fit its type, and `unknown` field ids with metrics that the schema did not have.
    """

    table: pa.Table
    types: Mapping[str, str]
    unreadable: frozenset[str]
    unknown: frozenset[int]


def widen(entries: pa.Table, *, schema: Schema, specs: Mapping[int, PartitionSpec]) -> WideEntries:
    """The wide form of canonical entries of one manifest, in their order.

    Metrics of fields that `schema` doesn't have stay in the canonical maps only. Void partition fields have no column.
    Raises ValidationError where an entry has a spec that is not in `specs`, or lacks a value of one of its fields, and
    where specs of the entries give one partition field id two types.
    """
    return widen_all(entries, [len(entries)], schema=schema, specs=specs)


def widen_all(
    entries: pa.Table, counts: Sequence[int], *, schema: Schema, specs: Mapping[int, PartitionSpec]
) -> WideEntries:
    """As `widen`, for the entries of several manifests one after another, `counts` of each."""
    table = entries.combine_chunks()
    columns = {name: chunk_of(table, name) for name in ENTRY_SCHEMA.names}
    starts = np.repeat(np.cumsum(counts) - counts, counts).astype(np.int64)
    columns["ordinal"] = pa.array(np.arange(len(table), dtype=np.int64) - starts)
    columns["row_offset"] = _row_offsets(table, starts)
    made = _Typed()
    _add_partition_columns(made, columns, schema, specs)
    _add_metric_columns(made, columns, schema)
    columns |= made.columns
    wide = pa.Table.from_arrays(
        list(columns.values()), schema=pa.schema([_FIELDS.get(name, (name, c.type)) for name, c in columns.items()])
    )
    return WideEntries(wide, made.types, frozenset(made.unreadable), frozenset(made.unknown))


def inherit(table: pa.Table, manifest: ManifestFile) -> pa.Table:
    """Wide or canonical entries of a manifest with what they inherit from its row in the manifest list.

    Sequence numbers are inherited where null by added entries, and by all where the manifest's is 0 (M2, M3); snapshot
    ids where null. Data files get first row ids from the manifest's (RL3) and none where it has none. Raises
    CorruptFileError where a live entry that isn't new lacks its data sequence number.
    """
    return inherit_all(table, [manifest], [len(table)])


def inherit_all(table: pa.Table, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> pa.Table:
    """As `inherit`, for the entries of several manifests one after another, `counts` of each."""
    first_row_ids = _first_row_ids(table, manifests, counts)
    return _with(inherit_sequence_numbers(table, manifests, counts), {"first_row_id": first_row_ids})


def inherit_sequence_numbers(table: pa.Table, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> pa.Table:
    """As `inherit`, for the entries of several manifests; first row ids stay as written, as lists may differ in them.

    What is filled in here is the same whatever list names the manifest.
    """

    def of_manifests(values: list[int | None]) -> pa.Array:
        known = pa.array(values, pa.int64())
        return known.take(pa.array(np.repeat(np.arange(len(values)), counts)))

    numbers = of_manifests([m.sequence_number for m in manifests])
    added = pc.equal(table["status"], int(ManifestEntryStatus.ADDED))
    heirs = pc.or_(added, pc.equal(numbers, 0))
    inherited = pc.if_else(heirs, numbers, arrays.null(pa.int64()))
    snapshot_ids = of_manifests([m.added_snapshot_id for m in manifests])
    filled = {
        "sequence_number": pc.coalesce(table["sequence_number"], inherited),
        "file_sequence_number": pc.coalesce(table["file_sequence_number"], inherited),
        "snapshot_id": pc.coalesce(table["snapshot_id"], snapshot_ids),
    }
    _check_sequence_numbers(table, filled["sequence_number"], manifests, counts)
    return _with(table, filled)


def _with(table: pa.Table, columns: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in columns.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(index), column)
    return table


def _row_offsets(table: pa.Table, starts: Ints) -> pa.Array:
    """Rows of the preceding live data files of the manifest without a first row id of their own.

    `starts` is where the manifest of each entry begins.
    """
    takes = pc.and_(
        pc.and_(
            pc.equal(table["content"], int(DataFileContent.DATA)),
            pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED)),
        ),
        pc.is_null(table["first_row_id"]),
    )
    rows: Ints = np.where(takes.to_numpy(), table["record_count"].to_numpy(), 0).astype(np.int64)
    running: Ints = np.cumsum(rows) - rows
    return pa.array(running - running[starts] if len(table) else running)


def _first_row_ids(table: pa.Table, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> pa.ChunkedArray:
    firsts = [m.first_row_id if m.content is ManifestContent.DATA else None for m in manifests]
    if all(first is None for first in firsts):
        return pa.chunked_array([pa.nulls(len(table), pa.int64())])
    starts = np.repeat(np.cumsum(counts) - counts, counts).astype(np.int64)
    offsets = table["row_offset"] if "row_offset" in table.column_names else _row_offsets(table, starts)
    known = pa.array(firsts, pa.int64()).take(pa.array(np.repeat(np.arange(len(firsts)), counts)))
    live = pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED))
    return row_ids(known, table["first_row_id"], pc.if_else(live, offsets, arrays.null(pa.int64())))


def row_ids(
    of_manifests: pa.Array | pa.ChunkedArray, own: pa.ChunkedArray, offsets: pa.ChunkedArray
) -> pa.ChunkedArray:
    """First row ids of files: their own, else taken from their manifest's; none where the manifest has none."""
    taken = pc.coalesce(own, pc.add(of_manifests, offsets))
    return pc.if_else(pc.is_valid(of_manifests), taken, arrays.null(pa.int64()))


def _check_sequence_numbers(
    table: pa.Table, numbers: pa.ChunkedArray, manifests: Sequence[ManifestFile], counts: Sequence[int]
) -> None:
    lacking = pc.and_(pc.is_null(numbers), pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED)))
    if pc.any(lacking).as_py():
        first = pc.index(lacking, True).as_py()
        where = manifests[int(np.searchsorted(np.cumsum(counts), first, side="right"))].manifest_path
        path = table["file_path"][first].as_py()
        raise CorruptFileError(f"{where}: the existing entry of {path} must carry its sequence number, found none")


def _known_counts(entries: KeyedValues) -> KeyedValues:
    """The counts without -1, by which some writers say that they don't know one (SP1)."""
    smallest = pc.min(entries.items).as_py()
    if smallest is None or smallest >= 0:
        return entries
    unknown = pc.less(entries.items, 0)
    return evolve(entries, items=pc.if_else(unknown, arrays.null(entries.items.type), entries.items))


@define
class _Typed:
    """Columns in the making; see `WideEntries`."""

    columns: dict[str, pa.Array] = field(factory=dict)
    types: dict[str, str] = field(factory=dict)
    unreadable: set[str] = field(factory=set)
    unknown: set[int] = field(factory=set)

    def add(
        self,
        name: str,
        iceberg_type: PrimitiveType,
        values: pa.BinaryArray,
        places: Places | None = None,
        *,
        is_bound: bool = False,
    ) -> pa.Array:
        typed = typed_values(iceberg_type, values, places, nan_is_null=is_bound, is_partition=not is_bound)
        self.columns[name] = typed
        self.types[name] = str(iceberg_type)
        nulls = values.null_count if places is None else places.null_count(values)
        if typed.null_count != nulls and not (is_bound and _are_numbers(iceberg_type, values, places)):
            self.unreadable.add(name)
        return typed


def _are_numbers(iceberg_type: PrimitiveType, values: pa.BinaryArray, places: Places | None) -> bool:
    """Whether all values are floating-point numbers by their length; NaNs among them are no bounds."""
    if not isinstance(iceberg_type, FLOATING_TYPES):
        return False
    values = values if places is None else places.take(values)
    lengths = pa.array([4, 8] if isinstance(iceberg_type, DoubleType) else [4], pa.int32())
    return bool(pc.all(pc.is_in(pc.binary_length(values.drop_null()), lengths)).as_py())


def _add_metric_columns(made: _Typed, columns: Mapping[str, pa.Array], schema: Schema) -> None:
    maps = {name: keyed_values(columns[name]) for name in BOUND_MAPS.values()}
    maps |= {name: _known_counts(keyed_values(columns[name])) for name in COUNT_MAPS.values()}
    for field_id in sorted({key for entries in maps.values() for key in entries.by_key}):
        found = schema.get_field(field_id)
        if found is None:
            made.unknown.add(field_id)
            continue
        if not found.field_type.is_primitive:
            continue
        primitive = found.primitive_type
        for prefix, name in {**BOUND_MAPS, **COUNT_MAPS}.items():
            entries = maps[name]
            if field_id not in entries.by_key:
                continue
            places = entries.by_key[field_id]
            if prefix in BOUND_MAPS:
                made.add(f"{prefix}_{field_id}", primitive, entries.items, places, is_bound=True)
            else:
                made.columns[f"{prefix}_{field_id}"] = places.take(entries.items)
        names = [f"{prefix}_{field_id}" for prefix in BOUND_MAPS if f"{prefix}_{field_id}" in made.columns]
        _drop_other_units(made.columns, primitive, columns["file_format"], names)
        drop_inverted(made.columns, primitive, names)


def _drop_other_units(
    columns: dict[str, pa.Array], iceberg_type: PrimitiveType, formats: pa.Array, names: Sequence[str]
) -> None:
    """Makes a file's bounds of timestamps unknown if both are near enough to 1970 to be of another unit.

    Java wrote microseconds for nanoseconds in ORC until 1.11. For Parquet files that others wrote, as `add_files` takes
    them in, it writes the numbers that are stored in them, which may be milliseconds.
    """
    match iceberg_type:
        case TimestampNanoType() | TimestamptzNanoType():
            file_format, most = FileFormat.ORC, _MOST_US
        case TimestampType() | TimestamptzType():
            file_format, most = FileFormat.PARQUET, _MOST_MS
        case _:
            return
    doubtful = pc.equal(pc.utf8_upper(formats.cast(pa.string())), file_format.name)
    for name in names:
        small = pc.and_(pc.less_equal(columns[name], most), pc.greater_equal(columns[name], -most))
        doubtful = pc.and_(doubtful, small.fill_null(True))
    for name in names:
        columns[name] = pc.if_else(doubtful, arrays.null(pa.int64()), columns[name])


def drop_inverted(columns: dict[str, pa.Array], iceberg_type: PrimitiveType, names: Sequence[str]) -> None:
    """Makes bounds unknown that are the wrong way round: no value lies between them, but the file may have some.

    Bounds of UUIDs are kept, as this tells in which order they were made.
    """
    if len(names) < len(BOUND_MAPS) or isinstance(iceberg_type, UUIDType) or not is_comparable(iceberg_type):
        return
    inverted = pc.greater(*(columns[name] for name in names))
    if pc.any(inverted).as_py():
        for name in names:
            columns[name] = pc.if_else(inverted, arrays.null(columns[name].type), columns[name])


def _add_partition_columns(
    made: _Typed, columns: Mapping[str, pa.Array], schema: Schema, specs: Mapping[int, PartitionSpec]
) -> None:
    entries = keyed_values(columns["partition"])
    spec_ids = columns["spec_id"]
    found = sorted(spec_ids.unique().to_pylist())
    key = pa.nulls(len(spec_ids), pa.binary())
    for spec_id in found:
        if spec_id not in specs:
            raise ValidationError(f"entries have partition spec {spec_id}, there are only {sorted(specs)}")
        _check_values_told(entries, arrays.to_numbers(spec_ids) == spec_id, specs[spec_id], columns)
        pieces = [spec_piece(spec_id, len(spec_ids))]
        for f in specs[spec_id].fields:
            raw, result = entries.column(f.field_id), f.result_type(schema)
            if isinstance(f.transform, VoidTransform):
                pieces += value_pieces(typed_values(result, raw, is_partition=True), raw)
                continue
            name = f"part_{f.field_id}"
            if made.types.get(name, str(result)) != str(result):
                raise ValidationError(f"partition field id {f.field_id} has types {made.types[name]} and {result}")
            pieces += value_pieces(made.add(name, result, raw), raw)
        of_spec = pc.binary_join_element_wise(*pieces, b"")
        key = of_spec if len(found) == 1 else pc.if_else(pc.equal(spec_ids, spec_id), of_spec, key)
    made.columns = {"partition_key": key, **made.columns}


def _check_values_told(
    entries: KeyedValues, of_spec: arrays.Mask, spec: PartitionSpec, columns: Mapping[str, pa.Array]
) -> None:
    """Raises ValidationError where an entry of a spec lacks a partition value: taken for null, its rows would be lost.

    The value of an identity field may be missing beside other values, and is null then (P1), if the file lacks that
    column, as far as metrics tell.
    """
    for f in spec.fields:
        lacking = of_spec & ~_having(entries, f.field_id)
        if isinstance(f.transform, VoidTransform) or not bool(np.any(lacking)):
            continue
        if isinstance(f.transform, IdentityTransform):
            known = [_having(keyed_values(columns[name]), f.source_id) for name in ("value_counts", "lower_bounds")]
            lacking &= (entries.widths == 0) | known[0] | known[1]
        if bool(np.any(lacking)):
            what = f"value of field {f.name!r}" if bool(np.all(entries.widths[lacking])) else "partition values"
            raise ValidationError(f"an entry of partition spec {spec.spec_id} has no {what}")


def _having(entries: KeyedValues, key: int) -> arrays.Mask:
    """The rows that have a key."""
    has = np.zeros(entries.count, np.bool_)
    if key in entries.by_key:
        rows = entries.by_key[key].rows
        has[slice(None) if rows is None else rows] = True
    return has
