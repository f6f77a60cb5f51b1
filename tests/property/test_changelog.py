"""A changelog, applied to the rows at its start, gives the rows at its end, whatever happened in between."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from budgets import examples
from histories import LAYOUTS, SPECS, apply, canonical, conditions, make_table, rows, rows_of, steps
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.data.read import row_buckets
from icecore.engine.scan.changelog import IncrementalChangelogScan

COLUMNS = ["id", "v", "x"]


def applied(before: Counter[str], changes: pa.Table) -> Counter[str]:
    """The rows after the changes, commit by commit; a deleted row must be there."""
    found = Counter(before)
    for ordinal in sorted(set(changes["_change_ordinal"].to_pylist())):
        of_commit = changes.filter(pc.equal(changes["_change_ordinal"], ordinal))
        gone = of_commit.filter(pc.is_in(of_commit["_change_type"], pa.array(["DELETE", "UPDATE_BEFORE"])))
        come = of_commit.filter(pc.is_in(of_commit["_change_type"], pa.array(["INSERT", "UPDATE_AFTER"])))
        assert gone.num_rows + come.num_rows == of_commit.num_rows
        deleted = canonical(gone.select(COLUMNS))
        assert deleted <= found, "a row is deleted that was not there"
        found = found - deleted + canonical(come.select(COLUMNS))
    return found


def in_buckets(scan: IncrementalChangelogScan) -> pa.Table:
    """The changes as where a commit's rows don't fit in memory; those of equal rows are one to another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_buckets, "MOST_BYTES", 99)
        return scan.to_arrow()


@pytest.mark.parametrize(("format_version", "mode"), LAYOUTS)
@examples(2, new=42)
@given(
    first=rows,
    history=steps,
    spec=st.sampled_from(SPECS),
    condition=conditions,
    upgrade=st.integers(0, 12),
    ends=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_changes_lead_from_the_start_to_the_end(
    format_version: int,
    mode: str,
    first: list[dict[str, Any]],
    history: list[tuple[str, Any]],
    spec: list[str],
    condition: str,
    upgrade: int,
    ends: tuple[int, int],
) -> None:
    """With and without a filter, from any snapshot to any later one; rows of the last id are told by it."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        table = make_table(catalog, spec, format_version, mode)
        for number, (action, argument) in enumerate([("append", first), *history]):
            apply(table, action, argument)
            if number == upgrade:
                table.upgrade(3)
        ids = [s.snapshot_id for s in table.snapshots()]
        start, end = sorted(e % len(ids) for e in ends)
        for row_filter in (None, condition):
            scan = table.incremental_changelog_scan(
                row_filter, from_snapshot_id_exclusive=ids[start], to_snapshot_id_inclusive=ids[end]
            )
            changes = scan.to_arrow()
            before, after = (rows_of(table, row_filter, snapshot_id=ids[i]) for i in (start, end))
            assert applied(before, changes) == after
            assert scan.count() == changes.num_rows
            assert Counter(map(repr, in_buckets(scan).to_pylist())) == Counter(map(repr, changes.to_pylist()))
            whole = table.incremental_changelog_scan(row_filter, to_snapshot_id_inclusive=ids[end]).to_arrow()
            assert applied(Counter(), whole) == after
        check_minimal(table)


def check_minimal(table: icecore.Table) -> None:
    """No row is deleted and inserted by one commit, unless it is another row of the same values by its row id."""
    names = [*COLUMNS, "_row_id"]
    changes = table.incremental_changelog_scan(selected_fields=names).to_arrow()
    for ordinal in set(changes["_change_ordinal"].to_pylist()):
        of_commit = changes.filter(pc.equal(changes["_change_ordinal"], ordinal))
        gone = of_commit.filter(pc.equal(of_commit["_change_type"], "DELETE"))
        come = of_commit.filter(pc.equal(of_commit["_change_type"], "INSERT"))
        assert not canonical(gone.select(names)) & canonical(come.select(names))
        without_id = gone.filter(pc.is_null(gone["_row_id"]))
        assert not canonical(without_id.select(COLUMNS)) & canonical(come.select(COLUMNS))
