"""Positions, ids and limits as numpy has them, which a frame of the log gives; SQLite takes these for bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from core_tables import ids_of

import icecore
from icecore.engine.errors import ValidationError


@pytest.fixture
def lake(catalog: icecore.Catalog) -> icecore.Catalog:
    """The namespace, the table and one row each by a commit of its own: positions 1 to 4."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
    for i in (1, 2):
        table.append([{"id": i}])
    return catalog


def test_positions_of_numpy_are_positions(lake: icecore.Catalog) -> None:
    """Not times in milliseconds, by which all would be as it was before the first commit."""
    two, three, four, five = np.array([2, 3, 4, 5], np.uint8)
    assert lake.at(three).position == 3 == lake.at(np.array([3])[0]).position
    assert ids_of(lake.at(three).load_table("ns.t")) == [1]
    assert lake.show_commit(three).event["position"] == 3
    assert lake.diff(three, four) == lake.diff(3, 4)
    assert lake.diff_table("ns.t", three).rows()["id"].to_pylist() == [2]
    assert lake.log(after=two, up_to=three, limit=two)["position"].to_pylist() == [3]
    assert lake.restore(three, idempotency_key="back") == lake.restore(3, idempotency_key="back") == 5
    assert ids_of(lake.load_table("ns.t")) == [1]
    assert lake.revert(five, through=five, idempotency_key="again") == 6
    assert ids_of(lake.load_table("ns.t")) == [1, 2]
    archived = lake.archive(before=two)
    assert archived is not None and archived.events == 1 and lake.verify().ok


def test_snapshot_ids_of_numpy_are_ids(lake: icecore.Catalog) -> None:
    table = lake.load_table("ns.t")
    first, second = np.array([h.snapshot_id for h in table.history()])
    assert table.diff(first, second).rows()["id"].to_pylist() == [2]
    assert table.scan(snapshot_id=first, limit=np.array([1])[0]).count() == 1
    day: Any = np.int64(86_400_000)
    three: Any = np.int32(3)
    with table.manage_snapshots() as refs:
        refs.create_tag(first, "a", max_ref_age_ms=day).create_branch(second, "b", day, day, three)
        refs.replace_tag("a", second).replace_branch("b", first).set_max_ref_age_ms("b", day * 2)
    assert (table.refs()["a"].snapshot_id, table.refs()["b"].max_ref_age_ms) == (second, 2 * day)
    with pytest.raises(
        ValidationError, match=r"a snapshot id, age or count must be a whole number, found float '1\.5'"
    ):
        table.manage_snapshots().create_tag(1.5, "c")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["3", 3.0, True, np.True_, None])
@pytest.mark.parametrize(
    "call",
    [
        lambda lake, wrong: lake.at(position=wrong),
        lambda lake, wrong: lake.show_commit(wrong),
        lambda lake, wrong: lake.revert(wrong),
        lambda lake, wrong: lake.archive(before=wrong),
        lambda lake, wrong: lake.forget_text("zoe", positions=[wrong]),
        lambda lake, wrong: lake.load_table("ns.t").maintenance.expire_snapshots().by_ids([1, wrong]),
    ],
)
def test_what_is_no_whole_number_is_refused(
    lake: icecore.Catalog, call: Callable[[icecore.Catalog, object], object], wrong: object
) -> None:
    with pytest.raises(ValidationError, match=r"must be a whole number, found|takes a position"):
        call(lake, wrong)


@pytest.mark.parametrize("wrong", ["3", 3.0, True, -1])
@pytest.mark.parametrize(
    "call",
    [
        lambda table, wrong: table.scan(limit=wrong),
        lambda table, wrong: table.incremental_append_scan(limit=wrong),
        lambda table, wrong: table.maintenance.expire_snapshots().retain_last(wrong),
    ],
    ids=["scan", "incremental append scan", "expiry"],
)
def test_what_is_no_count_is_refused(
    lake: icecore.Catalog, call: Callable[[icecore.Table, object], object], wrong: object
) -> None:
    with pytest.raises(ValidationError, match=r"must be a whole number, found|not be negative|at least 1 snapshot"):
        call(lake.load_table("ns.t"), wrong)
