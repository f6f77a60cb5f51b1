"""The z-order: its key bit by bit, and tables rewritten by it."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.data.arrow.z_order import ZOrder, interleaved, ordered_word, z_order_words
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)

INTS = st.integers(-(2**31), 2**31 - 1)
WIDE = DecimalType(38, 3)
COLUMNS: list[tuple[PrimitiveType, pa.DataType, st.SearchStrategy[Any]]] = [
    (BooleanType(), pa.bool_(), st.booleans()),
    (IntegerType(), pa.int32(), INTS),
    (LongType(), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (DateType(), pa.date32(), st.dates()),
    (FloatType(), pa.float32(), st.floats(width=32, allow_nan=False).filter(lambda x: str(x) != "-0.0")),
    (DoubleType(), pa.float64(), st.floats(allow_nan=False).filter(lambda x: str(x) != "-0.0")),
    (DecimalType(9, 2), pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    (WIDE, pa.decimal128(38, 3), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-3"))),
]


@pytest.mark.parametrize(
    ("kind", "arrow", "values"), COLUMNS, ids=lambda v: str(v) if isinstance(v, PrimitiveType) else ""
)
def test_a_word_has_the_order_of_its_values(kind: PrimitiveType, arrow: pa.DataType, values: Any) -> None:
    """Of decimals of more than 64 bits only the highest count; null is 0, also behind an offset."""

    @given(st.lists(values, min_size=1))
    def check(found: list[Any]) -> None:
        found.sort()
        array = pa.array([None, *found, None], arrow).slice(1)
        words = ordered_word(array, kind).tolist()
        assert words[-1] == 0
        for (a, b), (x, y) in zip(pairwise(words[:-1]), pairwise(found), strict=True):
            assert a <= b
            if kind != WIDE:
                assert (a == b) == (x == y)

    check()


def test_words_are_the_bytes_of_java() -> None:
    """Numbers as 8 bytes of ordered bits; of text the first 8 bytes; NaN is above all numbers."""

    def words(values: list[Any], arrow: pa.DataType, kind: PrimitiveType) -> list[str]:
        return [f"{w:016x}" for w in ordered_word(pa.array(values, arrow), kind).tolist()]

    assert words([0, -1, 7, None], pa.int32(), IntegerType()) == [
        "8000000000000000", "7fffffffffffffff", "8000000000000007", "0000000000000000"
    ]  # fmt: skip
    one = struct.unpack(">Q", struct.pack(">d", 1.0))[0]
    assert words([1.0, -1.0, math.nan], pa.float32(), FloatType()) == [
        f"{one | 1 << 63:016x}", f"{~(one | 1 << 63) & 2**64 - 1:016x}", "fff8000000000000"
    ]  # fmt: skip
    assert words(["", "ab", "abcdefghij", "é", None], pa.string(), StringType()) == [
        "0" * 16, "6162000000000000", "6162636465666768", "c3a9000000000000", "0" * 16
    ]  # fmt: skip


@given(st.integers(1, 3).flatmap(lambda k: st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * k), min_size=1)))
def test_bits_are_taken_in_turn(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array(c, np.uint64) for c in zip(*rows, strict=True)]
    found = list(zip(*(w.tolist() for w in interleaved(columns)), strict=True))
    for row, words in zip(rows, found, strict=True):
        bits = "".join("".join(bit) for bit in zip(*(f"{value:064b}" for value in row), strict=True))
        assert "".join(f"{w:064b}" for w in words) == bits


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_is_rewritten_by_z_order(catalog: icecore.Catalog, version: int) -> None:
    """A square of 16 by 16 is cut into squares: each quarter of the rows has the bounds of one. Rows keep their ids."""
    table = catalog.create_table(
        "ns.t", pa.schema([("x", pa.int32()), ("p", pa.struct([("y", pa.int32())]))]), format_version=version
    )
    for x in range(16):
        table.append([{"x": (x * 7) % 16, "p": {"y": y}} for y in range(16)])
    names = ("x", "p", "_row_id") if version == 3 else ("x", "p")
    before = sorted(map(str, table.scan(selected_fields=names).to_arrow().to_pylist()))
    table.rewrite_data_files(strategy="zorder", sort_order=["x", "p.y"])
    found = table.scan(selected_fields=names).to_arrow().to_pylist()
    assert sorted(map(str, found)) == before
    for start in range(0, 256, 64):
        quarter = found[start : start + 64]
        assert {r["x"] // 8 for r in quarter} == {start // 128}
        assert {r["p"]["y"] // 8 for r in quarter} == {start // 64 % 2}
    keys = z_order_words(table.scan().to_arrow(), ZOrder.of(["x", "p.y"], table.schema()), table.schema())
    both = list(zip(*(k.to_pylist() for k in keys), strict=True))
    assert both == sorted(both)
    assert [t.file.sort_order_id for t in table.scan().plan_files()] == [None]
    assert catalog.verify().ok


def test_what_has_no_z_order(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", pa.schema([("x", pa.int32()), ("l", pa.list_(pa.int32()))]))
    given: list[tuple[Any, str]] = [
        (None, "names of columns"), ("x", "names of columns"), ([], "names of columns"), (["x", "x"], "different"),
        (["l"], "'l'"), (["l.element"], "'l.element'"), (["q"], "q"),
    ]  # fmt: skip
    for terms, text in given:
        with pytest.raises(ValidationError, match=text):
            table.rewrite_data_files(strategy="zorder", sort_order=terms)
    schema = Schema((NestedField(1, "s", StructType((NestedField(2, "d", DateType(), False),)), False),))
    when = pa.table({"s": pa.array([{"d": dt.date(1970, 1, 2)}, None])})
    assert [hex(w) for w in z_order_words(when, ZOrder.of(["s.d"], schema), schema)[0].to_pylist()] == [
        "0x8000000000000001", "0x0"
    ]  # fmt: skip
