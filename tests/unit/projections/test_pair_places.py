"""Pairs of a file and a delete find their files, by whichever way is the faster for these numbers."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icecore.projections.planned_files import _places

PLACE = st.tuples(
    st.one_of(st.integers(0, 3), st.integers(2**32, 2**32 + 2), st.just(2**40)),
    st.one_of(st.integers(0, 3), st.just(10**6)),
)


def table(places: list[tuple[int, int]]) -> pa.Table:
    return pa.table({n: pa.array([p[i] for p in places], pa.int64()) for i, n in enumerate(("m", "ordinal"))})


@given(st.lists(PLACE, min_size=1, max_size=30, unique=True), st.lists(PLACE, max_size=30), st.integers(0, 30))
def test_each_pair_finds_its_file(files: list[tuple[int, int]], others: list[tuple[int, int]], known: int) -> None:
    pairs = [*files[:known], *others]
    expected = [files.index(p) if p in files else -1 for p in pairs]
    assert _places(table(files), table(pairs), "m", "ordinal").tolist() == expected
