"""The files that a stream reads of a table, and its offsets in them."""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from typing import Any, TypeGuard

import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import pyiceberg_catalog

import icecore
from icecore.engine.data.read.rows_of_commits import CommitFiles
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.spark_source.source_options import STREAMING, SourceOptions
from icecore.engine.spark_source.stream.stream_files import Limits, Offset, StreamFiles, numbered


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """Three appends of two files each, with 2, 4 and 6 rows."""
    made = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("p", pa.int64())]), partition_spec=["p"])
    for i in (1, 2, 3):
        append(made, i)
    return made


@pytest.fixture
def empty(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.empty", pa.schema([("id", pa.int64()), ("p", pa.int64())]), partition_spec=["p"])


def append(table: icecore.Table, i: int) -> None:
    table.append([{"id": 10 * i + n, "p": p} for p in (0, 1) for n in range(i)])


def stream(table: icecore.Table, **options: Any) -> StreamFiles:
    given = {k.replace("_", "-"): str(v) for k, v in options.items()}
    return StreamFiles(table.refresh(), SourceOptions.of(given, STREAMING))


def batches(files: StreamFiles, start: Offset, limits: Limits) -> list[list[int]]:
    """The rows of each file, by micro-batch, until there is no more."""
    offsets = [start]
    while (at := files.next_offset(offsets[-1], limits)) != offsets[-1]:
        offsets.append(Offset.of(at.to_dict()))
    pieces = [[p for p in files.between(a, b) if isinstance(p, FileScanTask)] for a, b in pairwise(offsets)]
    return [[p.file.record_count for p in batch] for batch in pieces]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), [[1, 1, 2, 2, 3, 3]]),
        (Limits(files=1), [[1], [1], [2], [2], [3], [3]]),
        (Limits(files=4), [[1, 1, 2, 2], [3, 3]]),
        (Limits(rows=3), [[1, 1], [2], [2], [3], [3]]),
        (Limits(rows=1), [[1], [1], [2], [2], [3], [3]]),
        (Limits(files=3, rows=5), [[1, 1, 2], [2, 3], [3]]),
    ],
)
def test_limits_cut_micro_batches(table: icecore.Table, limits: Limits, expected: list[list[int]]) -> None:
    """Each file comes once; one that is larger than the limit comes alone."""
    files = stream(table)
    assert batches(files, files.first_offset(), limits) == expected


def test_a_changelog_has_commits_whole_where_rows_are_compared(table: icecore.Table) -> None:
    """Files that only came, or only went, come one by one; a limit of files counts those of a commit."""
    table.delete("p = 0 AND id < 30")
    table.overwrite([{"id": 99, "p": 1}], "p = 1 AND id > 30")
    table.rewrite_data_files(options={"rewrite-all": "true"})
    files = stream(table, changelog="true")
    offsets = [files.first_offset()]
    while (at := files.next_offset(offsets[-1], Limits(files=2))) != offsets[-1]:
        offsets.append(Offset.of(at.to_dict()))
    found = [
        [(c.ordinal, len(c.gone), len(c.come)) for c in numbered(p for p in files.between(a, b) if is_commit(p))]
        for a, b in pairwise(offsets)
    ]
    assert found[:3] == [[(0, 0, 1), (0, 0, 1)]] * 3
    assert found[3:] == [[(0, 1, 0), (0, 1, 0)], [(0, 1, 2)]]


def is_commit(piece: FileScanTask | CommitFiles) -> TypeGuard[CommitFiles]:
    return isinstance(piece, CommitFiles)


def test_where_a_stream_begins(table: icecore.Table) -> None:
    first, second, third = table.snapshots()

    def rows(**options: Any) -> list[list[int]]:
        files = stream(table, **options)
        return batches(files, files.first_offset(), Limits())

    assert rows(start_snapshot_id=first.snapshot_id) == [[2, 2, 3, 3]]
    assert rows(start_snapshot_id=third.snapshot_id) == []
    assert rows(start_timestamp=second.timestamp_ms) == [[2, 2, 3, 3]]
    assert rows(start_timestamp=third.timestamp_ms + 1) == []
    assert rows(start_timestamp="2001-01-01T00:00:00Z") == [[1, 1, 2, 2, 3, 3]]
    with pytest.raises(ValidationError, match="takes one of"):
        rows(start_timestamp=0, start_snapshot_id=first.snapshot_id)
    with pytest.raises(ValidationError, match="not on its branch"):
        rows(start_snapshot_id=1)


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_time_to_come_is_waited_for(empty: icecore.Table, is_empty: bool) -> None:
    """What is committed before it is passed over, overwrites too; from then on everything is read."""
    if not is_empty:
        append(empty, 1)
    start = stream(empty, start_timestamp="2099-01-01T00:00:00Z").first_offset()
    assert Offset.of(json.loads(json.dumps(start.to_dict()))) == start
    append(empty, 2)
    empty.overwrite([{"id": 1, "p": 0}], "p = 1")
    assert batches(stream(empty), start, Limits()) == []
    (*_, overwritten) = empty.snapshots()
    append(empty, 3)
    append(empty, 4)
    soon = evolve(start, since_ms=overwritten.timestamp_ms + 1)
    assert batches(stream(empty), soon, Limits(files=2)) == [[3, 3], [4, 4]]
    (after_first, *_) = empty.snapshots()[-2:]
    passed = [s.snapshot_id for s in empty.snapshots()[:-2]]
    empty.maintenance.expire_snapshots().by_ids(passed).commit()
    with pytest.raises(ValidationError, match=r"first snapshots.*expired"):
        batches(stream(empty), soon, Limits())
    at_second = evolve(start, since_ms=after_first.timestamp_ms + 1)
    assert batches(stream(empty), at_second, Limits()) == [[4, 4]]


def test_offsets_that_were_stored_before_are_known(table: icecore.Table) -> None:
    """They have no time to wait for, and keep their text, by which Spark compares them."""
    stored = {"snapshot-id": table.snapshots()[0].snapshot_id, "files": 2, "whole": True, "done": True}
    assert Offset.of(stored).to_dict() == stored
    assert batches(stream(table), Offset.of(stored), Limits()) == [[2, 2, 3, 3]]


def test_an_empty_table_is_waited_for(empty: icecore.Table) -> None:
    files = stream(empty)
    start = files.first_offset()
    assert files.next_offset(start, Limits()) == start
    append(empty, 2)
    assert batches(stream(empty), start, Limits()) == [[2, 2]]


def test_rewrites_hold_nothing_new_and_other_changes_are_told(table: icecore.Table) -> None:
    end = stream(table).next_offset(stream(table).first_offset(), Limits())
    table.rewrite_data_files(options={"rewrite-all": "true"})
    append(table, 1)
    assert [b for b in batches(stream(table), end, Limits()) if b] == [[1, 1]]
    table.delete("p = 0")
    with pytest.raises(ValidationError, match=r"'delete'.*streaming-skip-delete-snapshots"):
        stream(table).next_offset(end, Limits())
    append(table, 2)
    skipping = {"streaming_skip_delete_snapshots": "true"}
    assert batches(stream(table, **skipping), end, Limits()) == [[1, 1, 2, 2]]
    table.overwrite([{"id": 1, "p": 7}], "p = 1")
    with pytest.raises(ValidationError, match=r"'overwrite'.*streaming-skip-overwrite-snapshots"):
        stream(table, **skipping).next_offset(end, Limits())
    skipping["streaming_skip_overwrite_snapshots"] = "true"
    append(table, 3)
    assert batches(stream(table, **skipping), end, Limits()) == [[1, 1, 2, 2, 3, 3]]


def test_expired_snapshots_are_missed_only_where_they_were_not_read(table: icecore.Table) -> None:
    files = stream(table)
    start = files.first_offset()
    first, rest = files.next_offset(start, Limits(files=2)), files.next_offset(start, Limits(files=3))
    inside = files.next_offset(start, Limits(files=1))
    expired = [s.snapshot_id for s in table.snapshots()[:1]]
    table.maintenance.expire_snapshots().by_ids(expired).commit()
    assert batches(stream(table), first, Limits()) == [[2, 2, 3, 3]]
    assert batches(stream(table), rest, Limits()) == [[2, 3, 3]]
    for lost in (start, inside):
        with pytest.raises(ValidationError, match="expired"):
            stream(table).next_offset(lost, Limits())
    anew = stream(table)
    (found,) = batches(anew, anew.first_offset(), Limits())
    assert sorted(found) == [1, 1, 2, 2, 3, 3]


def test_first_snapshots_that_another_engine_expired_are_missed(catalog: icecore.Catalog, empty: icecore.Table) -> None:
    """PyIceberg makes the next one a first snapshot; the log knows better."""
    start = stream(empty).first_offset()
    append(empty, 1)
    append(empty, 2)
    first = empty.snapshots()[0].snapshot_id
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        peer.load_table("ns.empty").maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(ValidationError, match=r"first snapshots.*expired"):
        batches(stream(empty), start, Limits())


def test_first_snapshots_that_came_with_their_table_are_missed_too(
    catalog: icecore.Catalog, table: icecore.Table
) -> None:
    """As of one that was registered."""
    location = table.metadata_location or ""
    catalog.drop_table("ns.t")
    registered = catalog.register_table("ns.again", location)
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        expiry = peer.load_table("ns.again").maintenance.expire_snapshots()
        expiry.by_ids([s.snapshot_id for s in registered.snapshots()[:2]]).commit()
    with pytest.raises(ValidationError, match=r"first snapshots.*expired"):
        stream(registered).next_offset(Offset(), Limits())


def test_a_last_snapshot_is_not_passed(table: icecore.Table) -> None:
    files = stream(table)
    files.end_here()
    append(table, 4)
    files.table.refresh()
    assert batches(files, files.first_offset(), Limits()) == [[1, 1, 2, 2, 3, 3]]


def test_a_last_snapshot_of_an_empty_table_is_none(empty: icecore.Table) -> None:
    """What is appended after a query was told to read all that there is, is another query's."""
    files = stream(empty)
    files.end_here()
    start = files.first_offset()
    append(empty, 1)
    files.table.refresh()
    assert files.first_offset() == start
    assert batches(files, start, Limits()) == []
    assert batches(stream(empty), start, Limits()) == [[1, 1]]


@pytest.mark.parametrize("how", ["expired", "rolled back"])
def test_a_last_snapshot_that_is_gone_ends_the_stream(table: icecore.Table, how: str) -> None:
    files = stream(table)
    files.end_here()
    start = files.first_offset()
    last = table.snapshots()[-1].snapshot_id
    if how == "rolled back":
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    append(table, 4)
    if how == "expired":
        table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in table.snapshots()[:-1]]).commit()
    files.table.refresh()
    with pytest.raises(ValidationError, match=f"{last}.*expired or is not on its branch"):
        files.next_offset(start, Limits())
