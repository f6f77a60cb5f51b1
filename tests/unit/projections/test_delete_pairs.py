"""Pairs of data files and delete files, by their rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from icecore.projections.plan.deletes.delete_pairs import DeletePairs

FILES, DELETES = 6, 2000
PAIRS = st.sets(st.tuples(st.integers(0, FILES - 1), st.one_of(st.integers(0, 4), st.just(DELETES - 1)))).map(list)


def made(pairs: Iterable[tuple[int, int]]) -> DeletePairs:
    rows = np.array(list(pairs), np.int32).reshape(-1, 2)
    return DeletePairs(rows[:, 0], rows[:, 1])


def read(pairs: DeletePairs) -> set[tuple[int, int]]:
    found = list(zip(pairs.files.tolist(), pairs.deletes.tolist(), strict=True))
    assert len(found) == len(set(found)) == len(pairs)
    return set(found)


@given(PAIRS)
def test_each_file_has_its_deletes_in_order(pairs: list[tuple[int, int]]) -> None:
    offsets, deletes = (a.tolist() for a in made(pairs).by_file(FILES))
    found = [deletes[a:z] for a, z in pairwise(offsets)]
    assert found == [sorted(d for f, d in pairs if f == file) for file in range(FILES)]
    assert made(pairs).counts(FILES).tolist() == [len(f) for f in found]
    assert made(pairs).used_deletes().tolist() == sorted({d for _, d in pairs})


@given(PAIRS, st.lists(st.integers(0, FILES + 1), unique=True), st.lists(st.integers(0, 6), unique=True))
def test_the_pairs_of_some_files_and_of_some_deletes(
    pairs: list[tuple[int, int]], files: list[int], deletes: list[int]
) -> None:
    of_files = made(pairs).of_files(np.array(files, np.int64))
    assert read(of_files) == {(files.index(f), d) for f, d in pairs if f in files}
    of_deletes = made(pairs).of_deletes(np.array(deletes, np.int64))
    assert read(of_deletes) == {(f, deletes.index(d)) for f, d in pairs if d in deletes}


@given(PAIRS, PAIRS)
def test_one_after_another_and_as_arrow(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    both = DeletePairs.concatenated([made(first), made(second).shifted(FILES, DELETES)])
    expected = {*first, *((f + FILES, d + DELETES) for f, d in second)}
    assert read(both) == expected
    assert read(DeletePairs.from_arrow(both.to_arrow())) == expected
