"""Many tables are told of together as each by itself: rows and findings are the same, whoever is beside them."""

from __future__ import annotations

import datetime as dt
import uuid
import warnings
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from broken_tables import edit_manifest, healthy, make_all, register, unreadable

import icecore
from icecore.engine.common.location import local_path
from icecore.engine.deletion.file_look import FileLook, FileLooks
from icecore.engine.errors import UnreadableTableWarning
from icecore.engine.events.event import Event
from icecore.projections.audit.checks import manifest_contents
from icecore.projections.audit.rules.rule import Scope
from icecore.projections.audit.rules.rule_files import own_rules
from icecore.projections.audit.together import file_history_rows, files_of_many
from icecore.projections.inspect import log_table

VALUES = pa.table(
    {
        "day": pa.array([dt.date(2024, 1, 1), dt.date(2024, 2, 1), None]),
        "key": pa.array([uuid.UUID(int=i).bytes for i in range(3)], pa.uuid()),
        "raw": pa.array([b"\xff", b"\x00", None]),
        "at": pa.array([dt.datetime(2024, 1, 1, 12)] * 3, pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.50"), Decimal("-7.00"), None], pa.decimal128(9, 2)),
        "nested": pa.array([{"x": 1, "y": 0.5}, {"x": 2, "y": float("nan")}, None]),
        "none": pa.nulls(3, pa.string()),
    }
)
TOLD = [
    "files",
    "data_files",
    "delete_files",
    "all_files",
    "file_history",
    "manifest_contents",
    "problems",
    "file_faults",
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The broken tables, two that can't be read, and one of many types, whose spec and columns have changed."""
    folder = tmp_path_factory.mktemp("many")
    with icecore.open(folder / "theirs") as theirs, icecore.open(folder / "ours") as ours:
        make_all(ours, theirs)
        unreadable(ours, theirs, "unreadable")
        table = healthy(theirs, "unnumbered")
        edit_manifest(table, 0, lambda entries: entries[0].update(status=0, sequence_number=None))
        register(ours, table, "unnumbered")
        table = ours.create_table("ns.values", VALUES.schema, partition_spec=["month(day)"], format_version=2)
        table.append(VALUES)
        with table.update_spec() as spec:
            spec.add_identity("price")
        with table.update_schema() as schema:
            schema.rename_column("raw", "rawer").add_column("more", "double")
        table.append(VALUES.rename_columns({"raw": "rawer"}))
        ours.drop_table("ns.healthy_1", message="not needed")
    yield folder / "ours"


def told(lake: Path) -> dict[str, list[str]]:
    """The rows of each audit table, read by a catalog that has read nothing."""
    found: dict[str, list[str]] = {}
    for name in TOLD:
        with icecore.open(lake, read_only=True) as catalog, warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreadableTableWarning)
            # As text, in which a NaN is like another.
            found[name] = [repr(row) for row in catalog.sql(f"SELECT * FROM {name}").to_pylist()]
    return found


def test_rows_of_many_tables_are_those_of_each(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = told(lake)
    for module in (files_of_many, file_history_rows, manifest_contents):
        monkeypatch.setattr(module, "FEW_ENTRIES", -1)
    monkeypatch.setattr(FileLooks, "of", lambda *_: FileLook())
    assert told(lake) == together
    assert len(together["problems"]) == 2 and all(together.values())


def test_one_look_tells_which_tables_files_need_no_search(catalog: icecore.Catalog) -> None:
    """Only one all of whose files are as they were written, with none beside them."""
    table = healthy(catalog, "looked_at")
    repository, state = table._repository, table.state

    def look() -> FileLook:
        return FileLooks().of(repository, state)

    assert look() == FileLook(are_there=True, are_needed=True)
    current = Path(local_path(str(state.metadata_location)) or "")
    beside = current.with_name("stray.parquet")
    beside.write_bytes(b"")
    assert look() == FileLook(are_there=True, are_needed=False)
    # As an event's id, which the log does not know.
    unlogged = beside.rename(current.with_name("00099-01900000-0000-7000-8000-000000000000.metadata.json"))
    assert look() == FileLook(are_there=False, are_needed=False)
    unlogged.unlink()
    text = current.read_bytes()
    current.write_bytes(text.replace(b"1", b"2", 1))
    assert look() == FileLook()
    current.write_bytes(text + b" ")
    assert look() == FileLook()
    current.unlink()
    assert look() == FileLook()


def test_findings_of_many_tables_are_those_of_some(lake: Path) -> None:
    """In groups that have other tables beside them, those that can't be read among them."""
    rules = [r.id for r in own_rules().values() if r.scope is Scope.TABLE]
    with icecore.open(lake, read_only=True) as catalog:
        found = catalog.audit(rules=rules)
        tables = sorted(catalog.list_tables("ns"))
        groups = [catalog.audit(rules=rules, tables=tables[i::7]) for i in range(7)]
    assert {f.table for f in found.findings} >= {"ns.unreadable", "ns.unnumbered", "ns.missing_files"}
    alone = {f for group in groups for f in group.findings}
    assert sorted(alone, key=str) == sorted(found.findings, key=str)


def test_an_audit_of_one_table_reads_no_event_of_another(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [r.id for r in own_rules().values() if r.scope is Scope.TABLE]
    with icecore.open(lake, read_only=True) as catalog:
        uuids = catalog.sql("SELECT DISTINCT name, table_uuid FROM tables").to_pylist()
        [stream] = [f"table:{r['table_uuid']}" for r in uuids if r["name"] == "values"]
        told = set[str]()
        real = log_table._rows

        def rows(events: Iterable[Event], names: Any) -> Iterator[dict[str, Any]]:
            listed = list(events)
            told.update(e.stream for e in listed)
            return real(listed, names)

        monkeypatch.setattr(log_table, "_rows", rows)
        catalog.audit(tables=["ns.values"], rules=rules)
    assert told == {stream}
