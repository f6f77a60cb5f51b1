"""The rows that differ between two positions are those that a model knows, whatever came and went between."""

from __future__ import annotations

import tempfile
from typing import Any

from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from test_blame import Modelled, ids, kinds

import icecore
from icecore.engine.errors import NoSuchSnapshotError


@examples(4, new=42)
@given(
    st.sampled_from([2, 3]),
    st.lists(st.tuples(kinds, ids), min_size=5, max_size=10),
    st.randoms(use_true_random=False),
)
def test_rows_that_differ_are_told(version: int, history: list[tuple[str, Any]], choice: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        model = Modelled(catalog, version)
        for kind, chosen in [("append", [0, 1, 2, 3]), *history]:
            model.step(kind, chosen)
        known = {p - 1: live for p, live in model.before.items()} | {catalog.position: model.live}
        for _ in range(3):
            start, end = sorted(choice.choices(sorted(known), k=2))
            try:
                found = catalog.diff_table("ns.t", start, end)
                changes = found.rows().to_pylist()
            except NoSuchSnapshotError:
                continue
            told = {kind: {r["uid"] for r in changes if r["_change_type"] == kind} for kind in ("INSERT", "DELETE")}
            assert len(changes) == len(told["INSERT"]) + len(told["DELETE"])
            assert told == {"INSERT": {*known[end]} - {*known[start]}, "DELETE": {*known[start]} - {*known[end]}}
            assert not (start == end and found.files().num_rows)
