"""What a manifest list says of the partitions of a manifest's entries (L1)."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.commit.manifest_summary import field_summaries
from icecore.engine.formats.entry_arrow import BINARIES
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import FieldSummary
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import DoubleType, IntegerType, NestedField, PrimitiveType, StringType

TYPES: tuple[PrimitiveType, ...] = (IntegerType(), StringType(), DoubleType())
SCHEMA = Schema(tuple(NestedField(i, f"c{i}", t) for i, t in enumerate(TYPES, 1)))
SPEC = PartitionSpec(tuple(PartitionField((i,), 999 + i, IdentityTransform(), f"c{i}") for i in range(1, 4)), 0)
TUPLES = st.tuples(
    st.none() | st.integers(-3, 3),
    st.none() | st.sampled_from(["", "a", "b", "é"]),
    st.none() | st.sampled_from([math.nan, -0.0, 0.0, 1.5, -math.inf]),
)


@examples(40)
@given(st.lists(TUPLES, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8), st.integers(0, 2))
def test_L1_the_summary_of_each_field(tuples: list[tuple[Any, ...]], spelt: list[bool], start: int) -> None:
    """A value that is null may be spelt out in a tuple or be left out of it; one without fields may be null."""
    rows: list[list[tuple[int, bytes | None]] | None] = []
    for values, is_spelt in zip(tuples, spelt, strict=False):
        encoded = [None if v is None else single_value.to_bytes(t, v) for t, v in zip(TYPES, values, strict=True)]
        found = [(1000 + i, v) for i, v in enumerate(encoded) if is_spelt or v is not None]
        rows.append(found or None)
    column = pa.chunked_array([pa.array(rows[:1], BINARIES), pa.array(rows[1:], BINARIES)]).slice(start)
    left = tuples[start:]
    assert field_summaries(column, SPEC, SCHEMA) == tuple(
        expected(kind, [values[i] for values in left]) for i, kind in enumerate(TYPES)
    )


def expected(kind: PrimitiveType, values: list[Any]) -> FieldSummary:
    present = [v for v in values if v is not None]
    numbers = [v for v in present if v == v]
    ordered = sorted(numbers, key=lambda v: (v, math.copysign(1, v)) if isinstance(v, float) else (v, 0))
    bounds = [single_value.to_bytes(kind, v) for v in (ordered[0], ordered[-1])] if ordered else [None, None]
    return FieldSummary(len(present) < len(values), len(numbers) < len(present), *bounds)
