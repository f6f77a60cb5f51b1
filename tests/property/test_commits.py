"""Random commits against a model of the rows in memory: scans, old snapshots and PyIceberg must all agree with it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field
from budgets import examples
from core_tables import sorted_rows
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

import icecore

Row = tuple[int, str | None, int | None]
COLUMNS = ("id", "name", "amount")
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.int32())])
SPECS: tuple[list[str], ...] = ([], ["bucket(3, id)"], ["name"], ["truncate(4, amount)", "bucket(2, name)"])

Matches = Callable[[Row], bool]
# SQL beside its meaning in Python: a comparison with null selects nothing.
FILTERS: dict[str, Matches] = {
    "id < 5": lambda r: r[0] < 5,
    "id >= 3 AND id < 9": lambda r: 3 <= r[0] < 9,
    "name = 'a'": lambda r: r[1] == "a",
    "name IS NULL": lambda r: r[1] is None,
    "name <> 'b'": lambda r: r[1] is not None and r[1] != "b",
    "amount > 3": lambda r: r[2] is not None and r[2] > 3,
    "NOT (amount > 3)": lambda r: r[2] is not None and not r[2] > 3,
    "amount IN (0, 1, -1) OR id = 2": lambda r: r[2] in (0, 1, -1) or r[0] == 2,
    "TRUE": lambda r: True,
    "id = 1000": lambda r: False,
}

rows = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from([None, "", "a", "b", "é/%=x"]),
        st.one_of(st.none(), st.integers(-9, 9)),
    ),
    max_size=6,
)
branches = st.sampled_from(["main", "dev"])
filters = st.sampled_from(sorted(FILTERS))
commands = st.one_of(
    st.tuples(st.just("append"), branches, rows),
    st.tuples(st.just("append"), branches, rows),
    st.tuples(st.just("delete"), branches, filters),
    st.tuples(st.just("overwrite"), branches, filters, rows),
    st.tuples(st.just("branch")),
    st.tuples(st.just("fast-forward")),
    st.tuples(st.just("respec"), st.sampled_from(SPECS)),
    st.tuples(st.just("reopen")),
)


@define
class Model:
    """What the table must hold: rows for each branch, and for each snapshot that ever was."""

    branches: dict[str, list[Row]] = field(factory=lambda: {"main": []})
    snapshots: dict[int, list[Row]] = field(factory=dict)


def arrow(data: list[Row]) -> pa.Table:
    columns = list(zip(*data, strict=True)) or [(), (), ()]
    return pa.table(dict(zip(COLUMNS, map(list, columns), strict=True)), schema=SCHEMA)


def key(data: list[Row]) -> list[Row]:
    return sorted(data, key=lambda t: [(v is not None, v) for v in t])


@pytest.mark.parametrize(("version", "mode"), [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read")])
@examples(6, new=56)
@given(spec=st.sampled_from(SPECS), steps=st.lists(commands, min_size=3, max_size=9))
def test_commits_agree_with_a_model_and_with_pyiceberg(
    version: int, mode: str, spec: list[str], steps: list[tuple[Any, ...]]
) -> None:
    """After any commits every branch and every snapshot holds the model's rows, here and for PyIceberg."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = icecore.open(folder)
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t", SCHEMA, partition_spec=spec, format_version=version, properties={"write.delete.mode": mode}
        )
        model = Model()
        for step in steps:
            if step[0] == "reopen":
                catalog.close()
                catalog = icecore.open(folder)
                table = catalog.load_table("ns.t")
            else:
                run(table, model, step)
            for branch, expected in model.branches.items():
                assert sorted_rows(table.scan(ref=branch).to_arrow()) == key(expected), (branch, step)
        for snapshot_id, expected in model.snapshots.items():
            assert sorted_rows(table.scan(snapshot_id=snapshot_id).to_arrow()) == key(expected)
            assert table.scan(snapshot_id=snapshot_id).count() == len(expected)
        for text, matches in FILTERS.items():
            expected = [r for r in model.branches["main"] if matches(r)]
            assert sorted_rows(table.scan(text).to_arrow()) == key(expected), text
        assert catalog.verify().problems == ()
        check_peer(table, model)
        catalog.close()


def run(table: icecore.Table, model: Model, step: tuple[Any, ...]) -> None:
    """One step on the table and on the model."""
    match step:
        case ("branch",):
            head = table.current_snapshot()
            if head is not None and "dev" not in model.branches:
                table.manage_snapshots().create_branch(head.snapshot_id, "dev").commit()
                model.branches["dev"] = list(model.branches["main"])
        case ("fast-forward",):
            if "dev" in model.branches:
                table.manage_snapshots().set_current_snapshot(ref_name="dev").commit()
                model.branches["main"] = list(model.branches["dev"])
        case ("respec", terms):
            with table.update_spec() as update:
                for f in table.spec().fields:
                    if str(f.transform) != "void":
                        update.remove_field(f.name)
                for term in terms:
                    update.add_field(term)
        case (kind, branch, *rest) if branch in model.branches:
            before = len(table.snapshots())
            model.branches[branch] = write(table, model.branches[branch], branch, kind, rest)
            assert len(table.snapshots()) - before in (0, 1)
            head = table.metadata.snapshot_by_ref(branch)
            if head is not None:
                model.snapshots[head.snapshot_id] = list(model.branches[branch])


def write(table: icecore.Table, held: list[Row], branch: str, kind: str, rest: list[Any]) -> list[Row]:
    if kind == "append":
        table.append(arrow(rest[0]), branch=branch)
        return [*held, *rest[0]]
    matches = FILTERS[rest[0]]
    kept = [r for r in held if not matches(r)]
    if kind == "delete":
        table.delete(rest[0], branch=branch)
        return kept
    table.overwrite(arrow(rest[1]), rest[0], branch=branch)
    return [*kept, *rest[1]]


def check_peer(table: icecore.Table, model: Model) -> None:
    """PyIceberg reads the same metadata file: every branch and every snapshot."""
    assert table.metadata_location is not None
    peer = StaticTable.from_metadata(table.metadata_location)
    for branch, expected in model.branches.items():
        snapshot = peer.metadata.snapshot_by_name(branch)
        if snapshot is None:
            assert not expected
            continue
        assert sorted_rows(peer.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == key(expected), branch
    for snapshot_id, expected in model.snapshots.items():
        assert sorted_rows(peer.scan(snapshot_id=snapshot_id).to_arrow()) == key(expected), snapshot_id
    assert Path(table.metadata_location.removeprefix("file://")).exists()
