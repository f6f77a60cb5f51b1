"""The fast decoder of manifests to canonical entries.

The blocks of manifests that were written alike become one Avro file of one block, which polars decodes by columns:

    two manifests                                  the file that is decoded
    | Obj 1 | schema, codec | sync |               | Obj 1 | flat schema, no codec | zeros |
    | 2 | size | r1 r2, compressed | sync |  ----> | 6 | size | r1 r2 r3 end r4 end | zeros |
    | 1 | size | r3, compressed    | sync |
    | Obj 1 | schema, codec | sync |
    | 1 | size | r4, compressed    | sync |

    `r1` by the schema:  {status snapshot_id .. {content file_path .. {day bucket} record_count ..}}
    its bytes:             02     02 54         00      1a ..       02 26 02 06   08
    by the flat schema:  {status snapshot_id ..  content file_path ..  day bucket  record_count ..}

Polars reads no records in records; Avro writes nothing around them, so the same bytes are those of a flat record, and
`r1` to `r4` are copied as they are. `end` is a record of ours, as short as can be, with a path that no file has: it
is read in its place only if the records before it are as many as their blocks say and use up their bytes. The rows of
`end` are left out; numpy and Arrow put the others into the canonical form. Manifests that polars can't read are read by
fastavro.
"""

from __future__ import annotations

import contextlib
import io
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen

from icecore.engine.data.arrow.nested import null_mask
from icecore.engine.data.read.read_ahead import read_ahead
from icecore.engine.errors import CorruptFileError
from icecore.engine.formats import avro_blocks, manifest_layout
from icecore.engine.formats.avro_blocks import AvroBlock, AvroHeader
from icecore.engine.formats.entry_arrow import BINARIES, COUNTS, ENTRY_SCHEMA
from icecore.engine.formats.manifest_avro import check_entries, decode_manifest_fastavro, naming_specs
from icecore.engine.formats.manifest_layout import EntryLayout
from icecore.engine.spec.partition import PartitionSpec
from icecore.projections.entries import fixed_lengths
from icecore.projections.entries.partition_tuples import chunk_of, partition_column

BYTES_AT_ONCE = 2**19
MANIFESTS_AT_ONCE = 1_000
_NO_SPECS: Mapping[int, PartitionSpec] = MappingProxyType({})
AHEAD = 2
"""The most runs that are decoded at once, or decoded and wait to be taken."""


def decode_manifest(
    data: bytes,
    *,
    where: str,
    spec_id: int,
    metadata_spec: PartitionSpec | None = None,
    left_out: frozenset[str] = frozenset(),
) -> pa.Table:
    """The canonical entries of a manifest of any version, in file order, nothing inherited.

    `spec_id` is the manifest list's; `metadata_spec`, the table's spec of that id, gives ids to partition fields where
    the file tells none. Fields are matched by id (M4), a missing `content` is data (G2). Columns in `left_out` may be
    null though the file has them: that saves the work. Raises CorruptFileError naming `where`.
    """
    one = _Manifest(where, data, spec_id, avro_blocks.read_header(data, where))
    found = _decoded([one], metadata_spec, left_out)
    if found is not None:
        return found[0]
    return decode_manifest_fastavro(data, where=where, spec_id=spec_id, metadata_spec=metadata_spec)


def decode_unlisted(data: bytes, where: str) -> pa.Table:
    """The canonical entries of a manifest by itself, of spec 0: its partition fields without ids get some of their own.

    Raises CorruptFileError naming `where`.
    """
    spec = manifest_layout.unlisted_spec(avro_blocks.read_header(data, where).schema, where)
    return decode_manifest(data, where=where, spec_id=0, metadata_spec=spec)


def decode_manifests(
    files: Iterable[tuple[str, bytes, int]],
    left_out: frozenset[str] = frozenset(),
    specs: Mapping[int, PartitionSpec] = _NO_SPECS,
) -> Iterator[pa.Table]:
    """The canonical entries of many manifests of a table with `specs`: `where`, bytes, and spec id of each.

    Small ones that were written alike and follow each other are decoded at once: that costs much less. Others are
    decoded in threads, ahead of the caller.
    """
    runs = _runs(files)
    first, second = next(runs, []), next(runs, None)
    if second is None:
        yield from _decode_run(first, left_out, specs)
        return
    for found in read_ahead(lambda run: _decode_run(run, left_out, specs), chain((first, second), runs), AHEAD):
        yield from found


def _runs(files: Iterable[tuple[str, bytes, int]]) -> Iterator[list[_Manifest]]:
    """The manifests in runs that can be decoded at once."""
    run: list[_Manifest] = []
    size = 0
    for where, data, spec_id in files:
        manifest = _Manifest(where, data, spec_id, avro_blocks.read_header(data, where))
        size += len(data)
        if run and (size > BYTES_AT_ONCE or len(run) >= MANIFESTS_AT_ONCE or run[0].layout != manifest.layout):
            yield run
            run, size = [], len(data)
        run.append(manifest)
    if run:
        yield run


@frozen
class _Manifest:
    where: str
    data: bytes
    spec_id: int
    header: AvroHeader

    @property
    def layout(self) -> tuple[bytes | None, bytes | None, int]:
        """The parts of the header by which records are read."""
        metadata = self.header.metadata
        return metadata.get("avro.schema"), metadata.get("partition-spec"), self.spec_id


def _decode_run(run: list[_Manifest], left_out: frozenset[str], specs: Mapping[int, PartitionSpec]) -> list[pa.Table]:
    if len(run) > 1:
        # Where one of them is damaged, the error has to say which.
        with contextlib.suppress(CorruptFileError):
            found = _decoded(run, specs.get(run[0].spec_id), left_out)
            if found is not None:
                return found
    return [
        decode_manifest(m.data, where=m.where, spec_id=m.spec_id, metadata_spec=specs.get(m.spec_id), left_out=left_out)
        for m in run
    ]


def _decoded(
    manifests: list[_Manifest], metadata_spec: PartitionSpec | None, left_out: frozenset[str]
) -> list[pa.Table] | None:
    """The entries of manifests of one layout, by polars; None where it can't read them."""
    header, where, spec_id = manifests[0].header, manifests[0].where, manifests[0].spec_id
    layout = manifest_layout.entry_layout(header.schema, naming_specs(header, spec_id, metadata_spec), where)
    flat = _flatten(layout, left_out)
    if flat is None:
        return None
    if not fixed_lengths.fixed_columns(layout):
        return _by_layout(manifests, layout, flat)
    # One by one, as manifests of one layout may be of two writers.
    return _of_either_form(manifests, layout, left_out) if len(manifests) == 1 else None


def _of_either_form(manifests: list[_Manifest], layout: EntryLayout, left_out: frozenset[str]) -> list[pa.Table] | None:
    """The entries, with partition values of fixed length read in the form that fits: see `fixed_lengths`."""
    flat = _flatten(layout, left_out - {"value_counts"}) or []
    longer = [evolve(f, avro_type=fixed_lengths.type_as_bytes(layout, f.column, f.avro_type)) for f in flat]
    first = next(avro_blocks.read_blocks(manifests[0].data, manifests[0].header, manifests[0].where), None)
    if first is None or not fixed_lengths.reads(first, [f.avro_type for f in longer]):
        return _by_layout(manifests, layout, flat)
    with contextlib.suppress(CorruptFileError):
        found = _by_layout(manifests, fixed_lengths.as_bytes(layout), longer)
        if found is not None and fixed_lengths.fit(found[0], layout):
            return found
    return _by_layout(manifests, layout, flat)


def _by_layout(manifests: list[_Manifest], layout: EntryLayout, flat: list[_FlatField]) -> list[pa.Table] | None:
    where, spec_id = manifests[0].where, manifests[0].spec_id
    blocks = [list(avro_blocks.read_blocks(m.data, m.header, m.where)) for m in manifests]
    leaves = _decode(blocks, flat, where)
    if leaves is None:
        return None
    try:
        table = check_entries(_canonical(leaves.combine_chunks(), layout, spec_id), where)
    except (pa.ArrowException, ValueError, OverflowError) as e:
        raise CorruptFileError(f"{where}: an entry does not have the types of a manifest: {e}") from e
    if len(manifests) == 1:
        return [table]
    counts = [sum(b.count for b in of_one) for of_one in blocks]
    return [table.slice(end - count, count) for end, count in zip(accumulate(counts), counts, strict=True)]


@frozen
class _FlatField:
    """A leaf of the flattened record; `column` is None for one that nobody looks at."""

    column: str | None
    avro_type: Any


def _flatten(layout: EntryLayout, left_out: frozenset[str]) -> list[_FlatField] | None:
    """The leaves of the entry record in order, or None where polars can't read them."""
    known = (layout.columns - left_out) | {c.name for c in layout.partition}
    out: list[_FlatField] = []
    for f in layout.schema["fields"]:
        if f["name"] != "data_file":
            out.append(_FlatField(f["name"], f["type"]))
            continue
        if isinstance(f["type"], list):
            return None
        for inner in f["type"]["fields"]:
            if inner["name"] != "partition":
                out.append(_FlatField(inner["name"], inner["type"]))
            elif isinstance(inner["type"], list):
                return None
            else:
                out += [_FlatField(p["name"], p["type"]) for p in inner["type"]["fields"]]
    out = [f for f in out if f.avro_type != "null"]
    if not all(_readable(f.avro_type) for f in out):
        return None
    return [f if f.column in known else _FlatField(None, f.avro_type) for f in out]


def _readable(t: Any) -> bool:
    if isinstance(t, list):
        rest = [b for b in t if b != "null"]
        return len(t) == 2 and len(rest) == 1 and _readable(rest[0])
    if isinstance(t, str):
        return t != "null"
    if t["type"] == "array":
        return _readable(t["items"])
    if t["type"] == "fixed":
        return bool(t["size"])
    return all(_readable(f["type"]) for f in t["fields"])


_SYNC = bytes(16)


def _decode(manifests: list[list[AvroBlock]], fields: list[_FlatField], where: str) -> pa.Table | None:
    """The columns of the flat records of all blocks of manifests; None where polars gives up.

    An extra record at the end of each manifest shows that the ones before it use up all their bytes: a wrong count
    would shift it.
    """
    # Not every process has a manifest to read, and this takes a while to import.
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    mark = f"end-{uuid.uuid4()}"
    empty = b"".join(_least(f.avro_type, mark if f.column == "file_path" else "") for f in fields)
    least = _least_size(fields)
    counts = []
    for blocks in manifests:
        count, size = sum(b.count for b in blocks), sum(len(b.data) for b in blocks)
        # Also keeps a wrong count from making polars reserve memory without end.
        if count * least > size:
            raise CorruptFileError(f"{where}: {size} bytes can't hold the {count} entries of its blocks")
        counts.append(count)
    marks = np.cumsum(np.array(counts) + 1) - 1
    height = sum(counts) + len(counts)
    names = [f.column or f"unknown{i}" for i, f in enumerate(fields)]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": n, "type": f.avro_type} for n, f in zip(names, fields, strict=True)],
    }
    # Copied once only: this is all of the manifests' bytes.
    parts = [data for blocks in manifests for data in (*(b.data for b in blocks), empty)]
    file = avro_blocks.write_block({"avro.schema": json.dumps(schema)}, height, parts, sync_marker=_SYNC)
    try:
        frame = pl.read_avro(io.BytesIO(file), columns=[f.column for f in fields if f.column is not None])
    except (PolarsError, PanicException, OSError):
        return None
    # Column by column, and nothing else is asked of polars: its threads are gone in a process that was forked off, and
    # what needs them never ends there.
    table = pa.table({c.name: c.to_arrow() for c in frame.get_columns()})
    if table.num_rows != height or table["file_path"].take(marks).to_pylist() != [mark] * len(counts):
        raise CorruptFileError(f"{where}: the {height - len(counts)} entries of its blocks do not use up their bytes")
    if len(counts) == 1:
        return table.slice(0, height - 1)
    kept = np.ones(height, np.bool_)
    kept[marks] = False
    return table.filter(pa.array(kept))


def _least(t: Any, text: str) -> bytes:
    """The shortest value of a stripped type, `text` for a string."""
    if isinstance(t, list):
        # A text needs the other branch than null.
        branch = next((i for i, b in enumerate(t) if b != "null"), 0) if text else 0
        return avro_blocks.write_long(branch) + _least(t[branch], text)
    match t if isinstance(t, str) else t["type"]:
        case "null":
            return b""
        case "float":
            return bytes(4)
        case "double":
            return bytes(8)
        case "fixed":
            return bytes(t["size"])
        case "string":
            return avro_blocks.write_long(len(text.encode())) + text.encode()
        case "record":
            return b"".join(_least(f["type"], "") for f in t["fields"])
        case _:
            return b"\x00"


def _least_size(fields: list[_FlatField]) -> int:
    """The fewest bytes that a record has."""
    return sum(1 if isinstance(f.avro_type, list) else len(_least(f.avro_type, "")) for f in fields)


def _canonical(table: pa.Table, layout: EntryLayout, spec_id: int) -> pa.Table:
    count = table.num_rows
    columns = []
    for f in ENTRY_SCHEMA:
        if f.name == "spec_id":
            column = pa.repeat(pa.scalar(spec_id, pa.int32()), count)
        elif f.name == "partition":
            column = partition_column(table, layout, count)
        elif f.name not in table.column_names:
            column = pa.repeat(pa.scalar(0, f.type), count) if f.name == "content" else pa.nulls(count, f.type)
        elif f.type in (COUNTS, BINARIES):
            column = _map(chunk_of(table, f.name), f.type)
        else:
            column = chunk_of(table, f.name).cast(f.type)
        if f.name == "content":
            column = column.fill_null(0)
        elif f.name == "file_format":
            column = pc.ascii_upper(column)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=ENTRY_SCHEMA)


def _map(pairs: pa.Array, map_type: pa.MapType) -> pa.MapArray:
    """A map column from a column of lists of (key, value); a pair without key or value is left out."""
    entries = pairs.flatten()
    keys, items = entries.field("key"), entries.field("value")
    lengths = pairs.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if entries.null_count or keys.null_count or items.null_count:
        keep = pc.and_(entries.is_valid(), pc.and_(keys.is_valid(), items.is_valid())).to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(pairs)), lengths)[keep]
        lengths = np.bincount(rows, minlength=len(pairs))
        keys, items = keys.filter(pa.array(keep)), items.filter(pa.array(keep))
    offsets = np.zeros(len(pairs) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        keys.cast(map_type.key_type),
        items.cast(map_type.item_type),
        type=map_type,
        mask=null_mask(pairs),
    )
