"""Maps from field id by their keys: right for maps of any shape, and cheap for those that nearly all manifests have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.formats.entry_arrow import COUNTS
from icecore.projections.entries.keyed_values import keyed_values

Pairs = list[tuple[int, int | None]]


def shapes(key: st.SearchStrategy[int]) -> st.SearchStrategy[list[Pairs | None]]:
    """Rows of maps, of which many have the same keys in one order; keys may repeat, and maps be null."""

    def of(common: list[int]) -> st.SearchStrategy[list[Pairs | None]]:
        value = st.none() | st.integers(-1, 2**40)
        alike = st.tuples(*(st.tuples(st.just(k), value) for k in common)).map(list)
        return st.lists(alike | alike | st.lists(st.tuples(key, value), max_size=4) | st.none(), max_size=12)

    return st.lists(key, max_size=4).flatmap(of)


@examples(200)
@given(
    rows=shapes(st.integers(-2, 5) | st.sampled_from([2**15, 2**31 - 1])),
    before=st.integers(0, 2),
    end=st.integers(0, 12),
)
def test_each_key_has_the_last_value_of_each_row(rows: list[Pairs | None], before: int, end: int) -> None:
    column = pa.array(rows, COUNTS).slice(before, end)
    told = [dict(row or ()) for row in column.to_pylist()]
    found = keyed_values(column)
    assert found.by_key.keys() == {key for row in told for key in row}
    assert found.widths.tolist() == [len(row or ()) for row in column.to_pylist()]
    for key in {*found.by_key, 77}:
        assert found.column(key).to_pylist() == [row.get(key) for row in told]


def maps(count: int, keys: int, *, lacking: int = 0) -> Any:
    """So many maps of the same keys, of which some have no value for the third."""
    rows = [[(k, i) for k in range(1, keys + 1) if i >= lacking or k != 3] for i in range(count)]
    return pa.array(rows, COUNTS)


def test_values_that_all_files_have_alike_are_copied_evenly() -> None:
    """No position of a value is looked up: what takes them may step from one to the next."""
    found = keyed_values(maps(50, 4))
    assert [places.evenly for places in found.by_key.values()] == [slice(i, 197 + i, 4) for i in range(4)]


def test_only_the_keys_of_files_that_differ_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose column has no value lacks its bounds: that costs as much as there are such files."""
    sorted_keys: list[int] = []

    def counting(keys: Any, **options: Any) -> Any:
        sorted_keys.append(len(keys))
        return argsort(keys, **options)

    argsort = np.argsort
    monkeypatch.setattr(np, "argsort", counting)
    found = keyed_values(maps(1000, 10, lacking=5))
    assert sorted_keys == [5 * 9]
    # Where all files have a value, none is put in its row one by one.
    assert [key for key, places in found.by_key.items() if places.rows is not None] == [3]


def test_columns_that_no_file_has_are_one_in_memory() -> None:
    """Those of the metrics of fields past the hundredth, as writers leave them out."""
    found = keyed_values(maps(100, 2))
    assert found.column(8) is found.column(9)
    assert found.nulls(pa.string()) is found.nulls(pa.string())
