"""Rows beside the events that somebody changed: found and healed, or without harm."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, repository_of, rows

import icecore
from icecore.engine.errors import CorruptLogError, IcecoreError, NamespaceNotEmptyError
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.log.store import FOLDERS_KNOWN

TRUTH = ("archive", "archived_stream", "kept_event")
"""What nothing else in the log's file tells: found, and a rebuild refuses to trust it."""
LEFT_OUT = {
    # The events themselves, which the chain of hashes guards.
    *("event", "event_content"),
    # What a warehouse is and where: an identity that nothing else tells.
    "warehouse",
    # Where other engines commit: a changed row is a commit of theirs.
    *("iceberg_tables", "iceberg_namespace_properties"),
    # Content that the archive has too.
    "kept_content",
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed warehouse that has a row in each table of its log."""
    path = tmp_path_factory.mktemp("rows") / "warehouse"
    with icecore.open(path) as catalog:
        catalog.create_namespace("ns", {"owner": "somebody"})
        table = catalog.create_table("ns.t", SCHEMA)
        for i in range(2):
            table.append(rows(i), idempotency_key=f"k{i}")
        catalog.create_view("ns.v", "SELECT 1 AS one")
        catalog.archive(catalog.position)
        table = catalog.load_table("ns.t")
        for i in range(2, 4):
            table.append(rows(i), idempotency_key=f"k{i}")
        catalog.checkpoint()
        catalog.materialize()
        assert catalog.verify().problems == ()
    return path


def changes(path: Path) -> list[tuple[str, str, str]]:
    """A statement for each column of each table that changes its last row, and one that deletes the row."""
    with sqlite3.connect(f"file:{path / 'icecore.db'}?mode=ro", uri=True) as connection:
        names = [r[0] for r in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        out = []
        for name in names:
            if name in LEFT_OUT or name.startswith("sqlite_"):
                continue
            columns = [r[1] for r in connection.execute(f"PRAGMA table_info({name})")]
            key = [r[1] for r in connection.execute(f"PRAGMA table_info({name})") if r[5]] or columns
            found = connection.execute(f"SELECT * FROM {name} ORDER BY {', '.join(key)} DESC LIMIT 1").fetchone()
            if found is None:
                continue
            row = dict(zip(columns, found, strict=True))
            where = " AND ".join(f"{c} IS {literal(row[c])}" for c in key)
            out.append((name, "all", f"DELETE FROM {name} WHERE {where}"))
            for column, value in row.items():
                # An event's other columns are in its hash together.
                if value is not None and (name != "kept_event" or column in ("idempotency_key", "payload")):
                    changed = literal(value + 1 if isinstance(value, int) else value[:-1])
                    out.append((name, column, f"UPDATE {name} SET {column} = {changed} WHERE {where}"))
    return out


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case bytes():
            return f"x'{value.hex()}'"
        case _:
            text = value.replace("'", "''")
            return f"'{text}'"


def test_a_changed_row_is_found_and_healed_or_harmless(warehouse: Path) -> None:
    """Whatever row is cut, raised or gone, the warehouse opens; a rebuild mends what follows from the log."""
    database = warehouse / "icecore.db"
    good = database.read_bytes()
    found: dict[str, int] = {}
    for name, column, statement in changes(warehouse):
        shutil.rmtree(warehouse / ".icecore", ignore_errors=True)
        for file in ("icecore.db", "icecore.db-wal", "icecore.db-shm"):
            (warehouse / file).unlink(missing_ok=True)
        database.write_bytes(good)
        if change(database, statement):
            is_found = examine(warehouse, f"{name}.{column}", is_truth=name in TRUTH)
            found[name] = found.get(name, 0) + is_found
    assert found.keys() >= {*TRUTH, "written_file", "checkpoint"}
    rebuilt = ("namespace", "catalog_name", "stream_head", "manifest", "snapshot_manifests", "table_folder")
    assert min(found[name] for name in (*TRUTH, *rebuilt)) >= 2, found


def change(database: Path, statement: str) -> bool:
    """Whether a statement could be run."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        try:
            connection.execute(statement)
        except sqlite3.IntegrityError:
            return False
        connection.commit()
    return True


def examine(warehouse: Path, about: str, *, is_truth: bool) -> bool:
    """Whether verify finds something, after which a rebuild must mend it; all answers are right else."""
    with warnings.catch_warnings(action="ignore"), icecore.open(warehouse) as catalog:
        # Opening warns of what it sees already.
        try:
            problems = catalog.verify().problems
        except IcecoreError as e:
            problems = (str(e),)
        if problems:
            if is_truth:
                with pytest.raises(CorruptLogError):
                    catalog.rebuild()
                return True
            catalog.rebuild()
            assert catalog.verify().problems == (), f"{about}: {problems}"
        table = catalog.load_table("ns.t")
        assert ids_of(table) == list(range(4)), about
        assert catalog.load_namespace_properties("ns") == {"owner": "somebody"}, about
        assert [v.name() for v in catalog.views()] == [("ns", "v")], about
        position = catalog.position
        for key in ("k1", "k3"):
            table.append(rows(99), idempotency_key=key)
        assert catalog.position == position, f"{about}: a key was taken twice"
    return bool(problems)


OF_OTHERS = (
    "UPDATE iceberg_tables SET table_name = x'ff74' WHERE table_name = 't'",
    "UPDATE iceberg_tables SET table_namespace = x'ff' WHERE table_name = 't'",
    "UPDATE iceberg_tables SET metadata_location = x'ff' WHERE table_name = 't'",
    "UPDATE iceberg_tables SET iceberg_type = x'ff', metadata_location = 'none' WHERE table_name = 't'",
    "INSERT INTO iceberg_tables VALUES ('icecore', 'ns', x'ff', x'ff', x'ff', x'ff')",
    "INSERT INTO iceberg_namespace_properties VALUES ('icecore', x'ff', 'key', 'value')",
    "INSERT INTO iceberg_namespace_properties VALUES ('icecore', 'ns', 'key', x'ff')",
)


@pytest.mark.parametrize("statement", OF_OTHERS)
def test_bytes_in_a_shared_row_are_named_and_stand_in_nobodys_way(tmp_path: Path, statement: str) -> None:
    """They are no commit of another engine, nor is a name that they took the place of gone."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        for name in ("ns.t", "ns.u"):
            catalog.create_table(name, SCHEMA).append(rows(1))
        position = catalog.position
    assert change(tmp_path / "icecore.db", statement)
    with warnings.catch_warnings(record=True, action="always", category=ForeignCommitWarning) as told:
        catalog = icecore.open(tmp_path)
    assert any("has bytes where text belongs" in str(w.message) for w in told)
    with catalog, warnings.catch_warnings(action="ignore"):
        assert ids_of(catalog.load_table("ns.t")) == [1]
        assert catalog.position == position, "nothing is taken in"
        catalog.verify()
        catalog.load_table("ns.u").append(rows(2))
        catalog.create_namespace("more")
        with pytest.raises(IcecoreError):
            catalog.drop_namespace("ns")
        assert ids_of(catalog.load_table("ns.u")) == [1, 2]


def test_a_lone_row_with_bytes_keeps_its_namespace(tmp_path: Path) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
    change(tmp_path / "icecore.db", "INSERT INTO iceberg_tables VALUES ('icecore', 'ns', x'ff', NULL, NULL, NULL)")
    with pytest.warns(ForeignCommitWarning):
        catalog = icecore.open(tmp_path)
    with catalog, pytest.raises(NamespaceNotEmptyError, match=r"ns\.\\\\xff"):
        catalog.drop_namespace("ns")


def test_a_position_of_known_folders_that_is_none_is_taken_for_the_first(tmp_path: Path) -> None:
    """All tables may have files anywhere then, until somebody looks."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        catalog.create_table("ns.t", SCHEMA).append(rows(1))
    assert change(tmp_path / "icecore.db", f"UPDATE warehouse SET value = 'x' WHERE key = '{FOLDERS_KNOWN}'")
    with icecore.open(tmp_path) as catalog:
        assert catalog.verify().problems == ()
        catalog.load_table("ns.t").maintenance.remove_orphan_files(dry_run=True)
        assert catalog.verify().problems == ()


def test_a_pointer_without_a_folder_gets_no_hint(tmp_path: Path) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", SCHEMA)
        table.append(rows(1))
        for name in ("stream_head", "iceberg_tables"):
            change(tmp_path / "icecore.db", f"UPDATE {name} SET metadata_location = 'nowhere'")
    with warnings.catch_warnings(action="ignore"), icecore.open(tmp_path) as catalog:
        repository_of(catalog).files.hint(catalog.load_table("ns.t").state.stream)
        assert "points at nowhere" in "".join(catalog.verify().problems)
        catalog.rebuild()
        assert catalog.verify().problems == ()
