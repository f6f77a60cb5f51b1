"""Empty lists and maps without offsets, on which Arrow crashes: inside of nulls older writers of Java leave them so."""

from __future__ import annotations

import pyarrow as pa
import pytest

import icecore
from icecore.engine.data.arrow.nested import with_offsets

LIST, MAP = pa.list_(pa.int64()), pa.map_(pa.string(), pa.uuid())
INSIDE = [LIST, MAP, pa.list_(LIST), pa.list_(pa.struct([("x", pa.string())]))]


def bare(kind: pa.DataType) -> pa.Array:
    """An empty list or map without offsets."""
    inside = pa.struct([kind.key_field, kind.item_field]) if pa.types.is_map(kind) else kind.value_type
    entries = bare(inside) if inside == LIST else pa.nulls(0, inside)
    return pa.Array.from_buffers(kind, 0, [None, None], children=[entries])


def nulls(kind: pa.DataType, count: int = 3) -> pa.Array:
    """Null lists over one."""
    buffers = [pa.py_buffer(b"\0"), pa.py_buffer(bytes(4 * (count + 1)))]
    return pa.Array.from_buffers(pa.list_(kind), count, buffers, null_count=count, children=[bare(kind)])


@pytest.mark.parametrize("kind", INSIDE, ids=str)
def test_they_are_written(catalog: icecore.Catalog, kind: pa.DataType) -> None:
    lists = nulls(kind)
    structs = pa.StructArray.from_arrays([lists], names=["l"])
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), pa.array(["a", "b", "c"]), lists)
    batch = pa.record_batch([pa.array([1, 2, 3]), lists, structs, maps], names=["id", "l", "s", "m"])
    table = catalog.create_table("ns.t", batch.schema)
    table.append(pa.Table.from_batches([batch, batch.slice(1)]))
    table.append(pa.RecordBatchReader.from_batches(batch.schema, [batch.slice(2), batch]))
    rows = [
        {"id": 1, "l": None, "s": {"l": None}, "m": [("a", None)]},
        {"id": 2, "l": None, "s": {"l": None}, "m": []},
        {"id": 3, "l": None, "s": {"l": None}, "m": [("b", None), ("c", None)]},
    ]
    found = table.scan().to_arrow().to_pylist()
    assert sorted(found, key=lambda r: r["id"]) == [rows[0]] * 2 + [rows[1]] * 3 + [rows[2]] * 4


@pytest.mark.parametrize("kind", INSIDE, ids=str)
def test_those_inside_of_no_lists_get_offsets_too(kind: pa.DataType) -> None:
    """In data without rows, which has offsets itself."""
    batch = pa.record_batch([nulls(kind).slice(1, 0)], names=["l"])
    found = with_offsets(batch)
    assert found.schema == batch.schema and found.num_rows == 0
    inner = found.column("l").values
    assert all(a.buffers()[1] for a in (inner, inner.values if inner.type == pa.list_(LIST) else inner))
    assert found.nbytes < 100


def test_whole_data_is_let_be() -> None:
    batch = pa.record_batch([pa.array([[[1], None], None], pa.list_(LIST)), pa.array([1, 2])], names=["l", "id"])
    assert with_offsets(batch) is batch
    table = pa.Table.from_batches([batch, batch])
    assert with_offsets(table) is table
