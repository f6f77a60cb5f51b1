"""Variants of any values, shredded in any way, are read as they were; damaged ones end in our errors."""

from __future__ import annotations

import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.errors import IcecoreError

from .variant_columns import NULL, read
from .variants import ARROW, Shape, Value, decoded, shredded

NAMES = st.sampled_from(["a", "b", "c", "a.b", "value", "typed_value", "é", "\uffff", "\U00010000", ""])
NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "date": 32, "timestamptz": 64, "timestamp": 64,
           "timestamptz_ns": 64, "timestamp_ns": 64}  # fmt: skip
DECIMALS = {"decimal4": (9, 2), "decimal8": (18, 0), "decimal16": (38, 10)}


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimal(name: str) -> st.SearchStrategy[Value]:
    digits, scale = DECIMALS[name]
    numbers = st.integers(1 - 10**digits, 10**digits - 1)
    return st.tuples(st.just(name), st.tuples(numbers, st.sampled_from([scale, scale, 1])))


SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.just(NULL),
    st.tuples(st.just("boolean"), st.booleans()),
    *[st.tuples(st.just(n), _signed(bits)) for n, bits in NUMBERS.items()],
    st.tuples(st.just("time"), st.integers(0, 86_399_999_999)),
    st.tuples(st.just("float"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    *[_decimal(n) for n in DECIMALS],
    st.tuples(st.just("string"), st.text(max_size=80)),
    st.tuples(st.just("binary"), st.binary(max_size=8)),
    st.tuples(st.just("uuid"), st.binary(min_size=16, max_size=16)),
)
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(st.just("array"), st.lists(inner, max_size=4)),
        st.tuples(st.just("object"), st.dictionaries(NAMES, inner, max_size=5)),
    ),
    max_leaves=12,
)


@st.composite
def shapes(draw: st.DrawFn, depth: int = 3) -> Shape:
    kinds = [None, "object", "object", "array", *ARROW] if depth else [None, *ARROW]
    kind, omit = draw(st.sampled_from(kinds)), draw(st.booleans())
    if kind == "array":
        return Shape(kind, element=draw(shapes(depth=depth - 1)), omit_value=omit)
    if kind == "object":
        fields = draw(st.dictionaries(NAMES, shapes(depth=depth - 1), min_size=1, max_size=4))
        return Shape(kind, fields, omit_value=omit)
    return Shape(kind, omit_value=omit)


def shape_of(value: Value, draw: st.DrawFn) -> Shape:
    """A shape that the value fits into, here and there with another inside."""
    kind, inside = value
    if kind == "null" or draw(st.integers(0, 5)) == 0:
        return draw(shapes(depth=1))
    omit = draw(st.booleans())
    if kind == "array":
        return Shape(kind, element=shape_of(inside[0], draw) if inside else Shape("int8"), omit_value=omit)
    if kind == "object":
        fields = {n: shape_of(v, draw) for n, v in inside.items() if draw(st.booleans())}
        return Shape(kind, fields or {"zz": Shape("string")}, omit_value=omit)
    return Shape(kind, omit_value=omit)


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Value | None], Shape]:
    """Rows, and a shape made for one of them or for none."""
    values = draw(st.lists(st.one_of(VALUES, VALUES, st.none()), min_size=1, max_size=6))
    model = draw(st.sampled_from(values))
    return values, draw(shapes()) if model is None else shape_of(model, draw)


@examples(60, 2100)
@given(column=columns(), store_schema=st.booleans())
def test_what_was_shredded_comes_back(
    column: tuple[list[Value | None], Shape], store_schema: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any values, shredded in any way by the tests' own shredder, are read as they were: types, order, nulls."""
    values, shape = column
    found = read(shredded(values, shape), tmp_path_factory.getbasetemp(), store_schema=store_schema)
    assert [decoded(v) for v in found] == values


@examples(35, 1400)
@given(column=columns(), damage=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_bytes_end_in_our_errors(
    column: tuple[list[Value | None], Shape],
    damage: list[tuple[int, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Bytes of metadata and values changed anywhere: rows, or an error that names the file; never another exception."""
    values, shape = column
    array = shredded(values, shape)
    parts = [array.field(i) for i in range(array.type.num_fields)]
    for at, byte in damage:
        number = at % len(parts)
        rows_of = parts[number].to_pylist() if pa.types.is_binary(array.type.field(number).type) else []
        if rows_of and rows_of[at % len(rows_of)]:
            data = bytearray(rows_of[at % len(rows_of)])
            data[at // 7 % len(data)] = byte
            rows_of[at % len(rows_of)] = bytes(data)
            parts[number] = pa.array(rows_of, pa.binary())
    damaged = pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())
    try:
        found = read(damaged, tmp_path_factory.getbasetemp())
    except IcecoreError as e:
        assert "f.parquet" in str(e)
    else:
        assert len(found) == len(values)
