"""What a purge leaves: files that something else needs, and those that are not the table's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from core_tables import age, ids_of, local, make_table, put, rows
from test_deletion_events import Killed, die_at, due, last_event, named_by

import icecore
from icecore.engine.deletion.delete_files import Deletion
from icecore.engine.deletion.purge_table import PurgePlan


def test_what_something_else_needs_stays(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Another table, one that was dropped and may come back, one registered at the same place, and one nested in it."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    tasks = list(table.scan().plan_files())
    takers = [make_table(catalog, name) for name in ("a", "b")]
    for taker, task in zip(takers, tasks, strict=True):
        taker.add_files([task.file.file_path])
    nested = make_table(catalog, "nested", location=f"{table.location()}/data/nested")
    nested.append(rows(3))
    catalog.drop_table("ns.b")
    catalog.drop_table("ns.t")
    found = catalog.purge_table("ns.t")
    assert {f for t in tasks for f in [t.file.file_path]} <= set(found.kept_files)
    assert ids_of(takers[0]) and ids_of(catalog.undrop_table("ns.b")) and ids_of(nested) == [3]
    assert sorted(ids_of(takers[0]) + ids_of(catalog.load_table("ns.b"))) == [1, 2]
    assert catalog.verify().problems == ()


def test_a_table_that_shares_its_location_keeps_all_its_files(catalog: icecore.Catalog) -> None:
    """Files that no commit names yet as well: its writers may be at work."""
    table = make_table(catalog)
    table.append(rows(1))
    copy = catalog.register_table("ns.copy", table.metadata_location or "")
    table.append(rows(2))
    writing = put(local(table.location()) / "data/writing.parquet", days=0)
    [own] = [t.file.file_path for t in table.scan("id = 2").plan_files()]
    catalog.drop_table("ns.t")
    found = catalog.purge_table("ns.t")
    assert own in found.deleted_files and writing.exists()
    copy.append(rows(3))
    assert ids_of(copy) == [1, 3] and catalog.verify().problems == ()


def test_a_table_inside_of_another_keeps_all_its_files(catalog: icecore.Catalog) -> None:
    """When that around it is purged: its own writers may be at work too."""
    outer = make_table(catalog)
    outer.append(rows(1))
    inner = make_table(catalog, "inner", location=f"{outer.location()}/data/inner")
    inner.append(rows(2))
    writing = put(local(inner.location()) / "data/writing.parquet", days=0)
    own = put(local(outer.location()) / "data/stray.parquet", days=0)
    catalog.drop_table("ns.t", purge=True)
    assert writing.exists() and not own.exists() and not (local(outer.location()) / "metadata").exists()
    assert ids_of(inner) == [2] and catalog.verify().problems == ()


def test_what_lies_elsewhere_is_left(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Files outside of the table and of the warehouse; in its folders, what is no table's file by its name."""
    table = make_table(catalog)
    outside = tmp_path / "outside/mine.parquet"
    outside.parent.mkdir()
    pq.write_table(rows(5), outside)
    table.add_files([str(outside)])
    notes = put(local(table.location()) / "notes.txt")
    catalog.drop_table("ns.t")
    found = catalog.purge_table("ns.t")
    assert {local(f) for f in found.left_files} == {outside, notes}
    assert outside.exists() and notes.exists() and list(notes.parent.iterdir()) == [notes]
    assert catalog.verify().ok


def test_a_registered_table_goes_from_where_it_lies(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Outside of the warehouse too, if under its location; but not what its first owner went on to commit."""
    with icecore.open(tmp_path / "first") as first:
        first.create_namespace("ns")
        origin = make_table(first)
        origin.append(rows(1))
        catalog.register_table("ns.r", origin.metadata_location or "").append(rows(2))
        origin.append(rows(3))
        catalog.drop_table("ns.r")
        found = catalog.purge_table("ns.r")
        assert found.kept_files and any(f.endswith(".parquet") for f in found.deleted_files)
        assert ids_of(origin) == [1, 3]
        first.drop_table("ns.t")
        first.purge_table("ns.t")
        catalog.purge_table("ns.r")
    assert list(local(origin.location()).parent.rglob("*.parquet")) == []


def test_a_file_that_another_table_takes_while_a_purge_is_planned_stays(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not among those that the event names, though it was when they were looked for."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    taken, other = (t.file.file_path for t in table.scan().plan_files())
    make_table(catalog, "other")
    planned = PurgePlan.deletion

    def deletion(self: PurgePlan) -> Deletion:
        found = planned(self)
        monkeypatch.setattr(PurgePlan, "deletion", planned)
        open_again().load_table("ns.other").add_files([taken])
        return found

    monkeypatch.setattr(PurgePlan, "deletion", deletion)
    catalog.drop_table("ns.t", purge=True)
    named = {f.location for f in named_by(catalog, last_event(catalog))}
    assert other in named and taken not in named
    assert len(ids_of(catalog.load_table("ns.other"))) == 1 and not local(other).exists()


def test_a_file_that_another_table_takes_before_it_goes_on_stays(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    [path] = [t.file.file_path for t in table.scan().plan_files()]
    age(local(path))
    other = make_table(catalog, "other")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, 0)
        catalog.drop_table("ns.t", purge=True)
    other.add_files([path])
    again = open_again()
    assert ids_of(again.load_table("ns.other")) == [1] and due(again) == [] and again.verify().ok
