"""What scans of snapshots and of the changes between them give, through branches, new schemas, specs and versions."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from branching_histories import Branching
from branching_steps import history
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from rows_by_id import condition, texts

import icecore
from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Operation, Snapshot, SnapshotRefType

LAYOUTS = [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")]
SPECS: list[list[str]] = [[], [], [], ["s"], ["bucket(2, id)"], ["truncate(2, i)"], ["st.a"]]
number = st.integers(0, 60)
ENDS = st.tuples(number, number, number, number)
Changes = tuple[Counter[str], Counter[str]]


@pytest.mark.parametrize(("version", "mode"), LAYOUTS)
@examples(2, new=28)
@given(seed=st.integers(0, 2**32), length=st.integers(3, 20), spec=st.sampled_from(SPECS), ends=ENDS)
def test_reads_between_and_at_snapshots(
    version: int, mode: str, seed: int, length: int, spec: list[str], ends: tuple[int, int, int, int]
) -> None:
    """Appends, changelogs and reads of snapshots are what the model's snapshots are and how they differ."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        model = Branching.create(catalog, version, spec, mode)
        for action, aside, argument in history(random.Random(f"{version} {mode} {seed}"), length):
            model.apply(action, aside, argument)
        choice = ends[3]
        model.apply("tag", False, choice)
        check_snapshots(model, choice)
        check_refs(model)
        check_times(model)
        heads = [ref.snapshot_id for _, ref in sorted(model.table.refs().items())]
        if heads:
            line = list(model.table.metadata.ancestors(heads[ends[0] % len(heads)]))[::-1]
            start, end = sorted(e % len(line) for e in ends[1:3])
            check_appends(model, line, start, end, choice)
            check_changelog(model, line, start, end, choice)
            check_strangers(model, line)


# Snapshots (SP8)


def check_snapshots(model: Branching, choice: int) -> None:
    """A snapshot is read by its own schema, whatever the table's is, and filtered by its names."""
    for snapshot in model.table.snapshots()[-3:]:
        schema = model.schemas[snapshot.snapshot_id]
        row_filter, holds = condition(schema, choice)
        rows = Counter(texts(model.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow(), schema))
        assert rows == model.expected(snapshot.snapshot_id, schema)
        scan = model.table.scan(row_filter, snapshot_id=snapshot.snapshot_id)
        expected = model.texts_of(model.holding(model.live[snapshot.snapshot_id], schema, holds), schema)
        check_surfaces(scan, schema, expected)


def check_refs(model: Branching) -> None:
    """A branch is read by the table's schema, a tag by its snapshot's (Java: SnapshotUtil.schemaFor)."""
    for name, ref in model.table.refs().items():
        is_branch = ref.type is SnapshotRefType.BRANCH
        schema = model.table.schema() if is_branch else model.schemas[ref.snapshot_id]
        scan, expected = model.table.scan(ref=name), model.expected(ref.snapshot_id, schema)
        rows = scan.to_arrow()
        assert rows.schema.names == [f.name for f in schema.fields]
        assert Counter(texts(rows, schema)) == expected
        assert scan.count() == expected.total()


def check_times(model: Branching) -> None:
    """A time gives the snapshot that was the last to become current by then, by its own schema."""
    log = model.table.history()
    for entry in log[-3:]:
        last = [e.snapshot_id for e in log if e.timestamp_ms <= entry.timestamp_ms][-1]
        scan = model.table.scan(as_of=entry.timestamp_ms)
        assert scan.snapshot is not None and scan.snapshot.snapshot_id == last
        schema = model.schemas[last]
        assert Counter(texts(scan.to_arrow(), schema)) == model.expected(last, schema)
    if log:
        with pytest.raises(NoSuchSnapshotError):
            model.table.scan(as_of=log[0].timestamp_ms - 1)


def check_surfaces(scan: Any, schema: Schema, expected: Counter[str]) -> None:
    """All ways to read a scan agree."""
    assert Counter(texts(scan.to_arrow(), schema)) == expected
    assert Counter(texts(scan.to_arrow_batch_reader().read_all(), schema)) == expected
    assert scan.count() == expected.total()
    assert scan.aggregate("count(*)").values["count(*)"] == expected.total()
    assert scan.plan().counts.files_planned == len(scan.plan_files())


# Between snapshots


def bounds_of(model: Branching, line: list[Snapshot], start: int, end: int) -> list[tuple[dict[str, Any], int]]:
    """Bounds of a scan up to the end, each with the place of the first snapshot that it takes in."""
    to, parent = {"to_snapshot_id_inclusive": line[end].snapshot_id}, line[start].parent_snapshot_id
    found = [
        ({"from_snapshot_id_exclusive": line[start].snapshot_id, **to}, start + 1),
        ({"from_snapshot_id_inclusive": line[start].snapshot_id, **to}, start),
        (to, 0),
    ]
    # The start may be a snapshot that was expired, as long as one has it as its parent.
    return found if parent is None else [*found, ({"from_snapshot_id_exclusive": parent, **to}, start)]


def check_appends(model: Branching, line: list[Snapshot], start: int, end: int, choice: int) -> None:
    """The rows that appends brought, and were they deleted since, by the table's schema; starts in and out."""
    schema = model.table.schema()
    row_filter, holds = condition(schema, choice)
    brought = [model.brought(s) if s.operation == Operation.APPEND else [] for s in line]
    for bounds, first in bounds_of(model, line, start, end):
        uids = [uid for found in brought[first : end + 1] for uid in found]
        scan = model.table.incremental_append_scan(**bounds)
        assert Counter(texts(scan.to_arrow(), schema)) == model.texts_of(uids, schema)
        assert sum(t.file.record_count for t in scan.plan_files()) == len(uids)
        assert scan.to_duckdb("found").sql("SELECT count(*) FROM found").fetchall() == [(len(uids),)]
        check_row_ids(model, line[: end + 1], bounds)
        filtered = model.table.incremental_append_scan(row_filter, **bounds)
        check_surfaces(filtered, schema, model.texts_of(model.holding(uids, schema, holds), schema))


def check_row_ids(model: Branching, line: list[Snapshot], bounds: dict[str, Any]) -> None:
    """An appended row has no row id but one that it had in a snapshot of the line (RL7).

    Rows that the first commit after an upgrade deleted got their ids with it, so that no snapshot says which.
    """
    schema = model.table.schema()
    lives = [(u, row_id) for s in line for u, row_id in model.live[s.snapshot_id].items()]
    known = {(model.text_of(u, schema), row_id) for u, row_id in lives}
    unnumbered = {u for u, _ in lives} - {u for u, row_id in lives if row_id is not None}
    gone = {model.text_of(u, schema) for u in unnumbered}
    found = model.table.incremental_append_scan(selected_fields=["*", "_row_id"], **bounds).to_arrow()
    rows = zip(texts(found, schema), found["_row_id"].to_pylist(), strict=True)
    assert {(row, row_id) for row, row_id in rows if row_id is not None and row not in gone} <= known


def check_changelog(model: Branching, line: list[Snapshot], start: int, end: int, choice: int) -> None:
    """Each commit's changes are the model's, no more and no less, and lead from the start to the end."""
    schema = model.table.schema()
    row_filter, holds = condition(schema, choice)
    for bounds, first in bounds_of(model, line, start, end):
        commits = [s for s in line[first : end + 1] if s.operation != Operation.REPLACE]
        for chosen, matches in ((None, lambda _: True), (row_filter, holds)):
            scan = model.table.incremental_changelog_scan(chosen, **bounds)
            if any(is_untold(model.table, s) for s in commits):
                with pytest.raises(ValidationError, match="was expired"):
                    scan.to_arrow()
                continue
            changes = scan.to_arrow()
            found = by_commit(changes, schema, commits)
            assert found == [model.changes(s, schema, matches) for s in commits]
            before = model.parent(line[first]) if first <= end else model.live[line[end].snapshot_id]
            rows = model.texts_of(model.holding(before, schema, matches), schema)
            for deleted, inserted in found:
                assert deleted <= rows, "a row is deleted that was not there"
                rows = rows - deleted + inserted
            assert rows == model.texts_of(model.holding(model.live[line[end].snapshot_id], schema, matches), schema)
            if chosen is not None:
                assert scan.count() == changes.num_rows
                again = scan.to_arrow_batch_reader().read_all()
                assert texts(again, scan.projection) == texts(changes, scan.projection)
    if model.table.format_version >= 3 and not any(is_untold(model.table, s) for s in line):
        check_updates(model, line[end], schema)


def is_untold(table: icecore.Table, snapshot: Snapshot) -> bool:
    """Whether the snapshot before was expired, so that only an append can still be told."""
    parent = snapshot.parent_snapshot_id
    has_parent = parent is None or table.snapshot_by_id(parent) is not None
    return not has_parent and snapshot.operation not in (Operation.APPEND, Operation.REPLACE)


def by_commit(changes: pa.Table, schema: Schema, commits: list[Snapshot]) -> list[Changes]:
    """The rows that each commit deleted and inserted; ordinals are in order and number the commits that count."""
    out: list[Changes] = [(Counter(), Counter()) for _ in commits]
    ordinals = changes["_change_ordinal"].to_pylist()
    assert ordinals == sorted(ordinals)
    kinds, ids = changes["_change_type"].to_pylist(), changes["_commit_snapshot_id"].to_pylist()
    for row, kind, ordinal, snapshot_id in zip(texts(changes, schema), kinds, ordinals, ids, strict=True):
        assert commits[ordinal].snapshot_id == snapshot_id
        out[ordinal][("DELETE", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER").index(kind) % 2][row] += 1
    return out


def check_updates(model: Branching, head: Snapshot, schema: Schema) -> None:
    """Two forms of a row follow each other and have its row id; nothing else is on both sides by id (RL6)."""
    plain = model.table.incremental_changelog_scan(to_snapshot_id_inclusive=head.snapshot_id)
    scan = model.table.incremental_changelog_scan(
        to_snapshot_id_inclusive=head.snapshot_id, compute_updates=True, selected_fields=["*", "_row_id"]
    )
    changes = scan.to_arrow()
    assert by_commit(changes, schema, list(scan.snapshots)) == by_commit(
        plain.to_arrow(), schema, list(plain.snapshots)
    )
    rows = changes.select(["_change_type", "_change_ordinal", "_row_id"]).to_pylist()
    for this, following in zip(rows, [*rows[1:], {}], strict=False):
        if this["_change_type"] == "UPDATE_BEFORE":
            assert following == this | {"_change_type": "UPDATE_AFTER"}
    left = {
        kind: {
            (r["_change_ordinal"], r["_row_id"]) for r in rows if r["_change_type"] == kind and r["_row_id"] is not None
        }
        for kind in ("DELETE", "INSERT")
    }
    assert not left["DELETE"] & left["INSERT"]


def check_strangers(model: Branching, line: list[Snapshot]) -> None:
    """A start that is no ancestor of the end is refused, and a snapshot that is no parent of one too."""
    known = {s.snapshot_id for s in line}
    for snapshot in model.table.snapshots():
        for scan in (model.table.incremental_append_scan, model.table.incremental_changelog_scan):
            for start in ("from_snapshot_id_exclusive", "from_snapshot_id_inclusive"):
                if snapshot.snapshot_id not in known:
                    bounds: dict[str, Any] = {start: snapshot.snapshot_id}
                    with pytest.raises(ValidationError, match="no ancestor"):
                        scan(to_snapshot_id_inclusive=line[-1].snapshot_id, **bounds)
