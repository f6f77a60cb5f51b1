"""Keys of equality deletes found among rows, alike whether they are hashed or sorted. Spec: D4."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from icecore.engine.data.arrow import equality
from icecore.engine.data.arrow.equality import EqualityKeys

TYPES = (
    pa.int32(), pa.int64(), pa.uint64(), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("ns", "UTC"),
    pa.float32(), pa.float64(), pa.string(), pa.decimal128(21, 2),
)  # fmt: skip


def column(t: pa.DataType, numbers: list[int | None]) -> pa.Array:
    if pa.types.is_temporal(t):
        return pa.array(numbers, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    return pa.array(numbers, pa.int64()).cast(t)


@pytest.mark.parametrize("has_null", [False, True], ids=["values", "and null"])
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_d4_keys_are_found_however_many_there_are(
    t: pa.DataType, has_null: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one column and by two; null is a value of its own, the least and the greatest are found."""
    chance = np.random.default_rng(7)
    deleted = [*chance.choice(5000, 300, replace=False).tolist(), 0, 4999, *([None] if has_null else [])]
    rows = [None, *chance.integers(0, 5000, 2000).tolist(), 0, 4999]
    wanted = [n in set(deleted) for n in rows]
    for least in (1, 10**6):
        monkeypatch.setattr(equality, "_SORTED_FROM", least)
        one = EqualityKeys.of([column(t, deleted)])
        assert one.matches([column(t, rows)]).tolist() == wanted
        parity = [None if n is None else n % 2 for n in deleted], [None if n is None else n % 3 % 2 for n in rows]
        two = EqualityKeys.of([column(t, deleted), pa.array(parity[0], pa.int64())])
        pairs = set(zip(deleted, parity[0], strict=True))
        found = two.matches([column(t, rows), pa.array(parity[1], pa.int64())])
        assert found.tolist() == [p in pairs for p in zip(rows, parity[1], strict=True)]


def test_d4_no_row_and_no_key() -> None:
    assert EqualityKeys.of([pa.array([], pa.int64())]).matches([pa.array([1, None])]).tolist() == [False, False]
    assert EqualityKeys.of([pa.array([1])]).matches([pa.array([], pa.int64())]).tolist() == []
