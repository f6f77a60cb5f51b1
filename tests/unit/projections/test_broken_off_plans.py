"""Plans that are broken off by a signal: what was being loaded, merged or typed anew is never half there."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest

import icecore
from icecore.projections.segments import entry_tables, segment_merging
from icecore.projections.segments.entry_tables import EntryTables
from icecore.projections.segments.segment_files import Growing, SegmentFolder

BEFORE = pa.schema([("id", pa.int32()), ("d", pa.date32())])
CHANGES: dict[str, tuple[Any, str]] = {
    "rows came": (Growing, "_added"),
    "types changed": (Growing, "retype"),
    "segments were copied": (entry_tables, "copy_all"),
    "segments were let go": (EntryTables, "_release"),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_that_is_broken_off_leaves_nothing_half_done(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, change: str, on_disk: bool, late: bool
) -> None:
    """Ctrl-C just before or after segments change: later plans have each row once, and prune by the right bounds."""
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 2 if on_disk else 100)
    monkeypatch.setattr(segment_merging, "MERGED_AT_ONCE", 2)
    unmerged = {"commit.manifest-merge.enabled": "false"}
    table = catalog.create_table("ns.t", BEFORE, format_version=3, properties=unmerged)
    for i in range(2):
        table.append(pa.table({"id": [i], "d": [18_000 + i]}, schema=BEFORE))
        table.scan().plan_files()
    with table.update_schema() as update:
        update.update_column("id", "long")
        if not on_disk:
            # Bounds of days become bounds of microseconds, in place.
            update.update_column("d", "timestamp")
    schema = table.scan().to_arrow().schema
    for i in range(2, 5):
        table.append(pa.table({"id": [i], "d": [18_000 + i]}, schema=BEFORE).cast(schema))
    where, name = CHANGES[change]
    real = getattr(where, name)

    def broken_off(*args: Any, **options: Any) -> None:
        if late:
            real(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(where, name, broken_off)
        table.scan().plan_files()
    table.append(pa.table({"id": [5], "d": [18_005]}, schema=BEFORE).cast(schema))
    for count, snapshot in enumerate(table.snapshots(), 1):
        scan = table.scan(snapshot_id=snapshot.snapshot_id)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == list(range(count))
        assert scan.plan().counts.files_total == count
    for i in range(6):
        assert table.scan(f"id = {i} AND d >= '2019-04-14' AND d < '2019-04-20'").count() == 1


def test_a_rebuild_that_is_broken_off_is_made_again(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that was let go and still counts as loaded is let go once more."""
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 1)
    monkeypatch.setattr(segment_merging, "MERGED_AT_ONCE", 2)
    table = catalog.create_table("ns.t", BEFORE, properties={"commit.manifest-merge.enabled": "false"})
    for i in range(4):
        table.append(pa.table({"id": [i], "d": [18_000 + i]}, schema=BEFORE))
        assert len(table.scan().plan_files()) == i + 1
    detach = SegmentFolder.detach

    def broken_off(*args: Any) -> None:
        detach(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SegmentFolder, "detach", staticmethod(broken_off))
        catalog.rebuild("ns.t")
    catalog.rebuild("ns.t")
    assert len(table.scan().plan_files()) == 4
