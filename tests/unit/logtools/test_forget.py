"""Forgetting: values of deleted rows leave the log and all that is made of it, which goes on as it was."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from click.testing import CliRunner
from core_tables import local, store_of
from erased_table import SECRET, erase, row
from traces import traces_of

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import (
    CorruptLogError,
    MovedWarehouseWarning,
)
from icecore.engine.formats.event_content import SALT, decode_content, encode_content, encode_table
from icecore.engine.log.store import EventStore


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the table, made once; a copy beside it stays as it was made."""
    folder = tmp_path_factory.mktemp("erased") / "warehouse"
    with icecore.open(folder, actor="tester") as catalog:
        catalog.create_namespace("ns")
        erase(catalog)
    shutil.copytree(folder, folder.with_name("kept"))
    return folder


@pytest.fixture
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder that the table was made in, since the log knows it, as it was made; a new one for tests without it."""
    if "erased" not in request.fixturenames:
        return tmp_path / "warehouse"
    folder: Path = request.getfixturevalue("made")
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(folder.with_name("kept"), folder))


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[icecore.Catalog]:
    with icecore.open(warehouse, actor="tester") as opened:
        if not opened.list_namespaces():
            opened.create_namespace("ns")
        yield opened


@pytest.fixture
def erased(catalog: icecore.Catalog) -> icecore.Table:
    """The table, planned by this process."""
    table = catalog.load_table("ns.users")
    assert table.scan("email < 'c'").count() == 1
    return table


def facts(table: icecore.Table) -> object:
    """What there is of the table now: rows, plans, and every file of its metadata."""
    folder = local(table.metadata_location).parent
    return (
        sorted(r["id"] for r in table.scan().to_arrow().to_pylist()),
        [t.file.file_path for t in table.scan("email < 'c'").plan_files()],
        {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")},
    )


@pytest.mark.parametrize("again", [False, True])
def test_nothing_of_what_is_forgotten_is_left(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], again: bool
) -> None:
    """Not in a byte of the folder, compressed or not. Rows, plans and metadata files are as before, and rebuilt so."""
    table = erase(catalog)
    before, position = facts(table), catalog.position
    assert traces_of(catalog.path, SECRET)
    found = table.forget(message="asked for", author="dpo")
    assert (found.position, found.files, found.held, found.left_files) == (position + 1, 1, {}, ())
    assert 3 in found.events
    if again:
        other = open_again()
        assert other.load_table("ns.users").scan("email < 'c'").count() == 1
    assert traces_of(catalog.path, SECRET) == []
    assert catalog.verify().problems == ()
    assert facts(table) == before
    catalog.rebuild()
    assert catalog.verify().problems == ()
    assert facts(catalog.load_table("ns.users")) == before
    assert traces_of(catalog.path, SECRET) == []
    last = catalog.log(limit=1).to_pylist()[0]
    assert (last["kind"], last["name"], last["actor"], last["message"]) == (
        "log.forgotten", "ns.users", "dpo", "asked for",
    )  # fmt: skip
    assert table.forget().position is None, "there is nothing left to forget"


def test_what_is_forgotten_can_not_be_guessed_by_its_hash(erased: icecore.Table, catalog: icecore.Catalog) -> None:
    """Whoever knows all that is left and tries values finds the right one no more: random bytes went with it."""
    table = erased
    was = store_of(catalog).content(3)
    assert was is not None
    salt = salt_of(was)
    assert traces_of(catalog.path, salt)
    table.forget()
    left = store_of(catalog).content(3)
    assert left is not None and traces_of(catalog.path, salt) == []
    [redaction] = [r for r in last_payload(catalog)["redactions"] if r["position"] == 3]
    right = decode_content(was, 3)
    for guess in (b"", bytes.fromhex(salt_of(left))):
        assert hashlib.sha256(encode_content(right, guess)).hexdigest() != redaction["was"]
    assert hashlib.sha256(encode_table(right)).hexdigest() != redaction["was"]
    assert hashlib.sha256(encode_content(right, bytes.fromhex(salt))).hexdigest() == redaction["was"]


def salt_of(content: bytes) -> str:
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as source:
        metadata = pa.ipc.open_stream(source.read()).schema.metadata or {}
    return str(metadata.get(SALT, b"").decode())


def last_payload(catalog: icecore.Catalog) -> dict[str, Any]:
    return store_of(catalog).event_at(catalog.position).payload


def test_the_past_is_still_planned_and_says_what_is_forgotten(erased: icecore.Table, catalog: icecore.Catalog) -> None:
    """Without bounds a file may hold any row, so plans of the past have more files, never fewer."""
    table = erased
    where = "email = 'x'"
    assert catalog.at(3).load_table("ns.users").scan(where).plan_files() == []
    position = table.forget().position
    past = catalog.at(3).load_table("ns.users")
    [task] = past.scan(where).plan_files()
    assert task.file.record_count == 1
    [known] = past.scan(where).explain().files["known"].to_pylist()
    assert known == f"bounds of email: forgotten at position {position}"
    assert "forgotten" not in str(table.scan(where).explain().files["known"].to_pylist())


def test_some_columns_are_forgotten(erased: icecore.Table, catalog: icecore.Catalog) -> None:
    """Those that are named, with what is nested in them; the others keep their bounds."""
    table = erased
    field = {n: table.schema().find_field(n).field_id for n in ("id", "email", "who.phone")}
    table.update_schema().rename_column("email", "mail").commit()

    def bounds() -> set[int]:
        data = store_of(catalog).content(3)
        assert data is not None
        [entry] = decode_content(data, 3).to_pylist()
        assert entry["lower_bounds"] is None or {i for i, _ in entry["value_counts"]} == set(field.values())
        return {i for n in ("lower_bounds", "upper_bounds") for i, _ in entry[n] or ()}

    assert bounds() == set(field.values())
    assert table.forget(columns=["email"]).files == 1
    assert bounds() == {field["id"], field["who.phone"]}
    assert table.forget(columns=["who"]).files == 1
    assert bounds() == {field["id"]}
    assert table.forget(columns=["who", "mail"]).position is None
    assert catalog.verify().problems == ()
    assert traces_of(catalog.path, SECRET) == []


@pytest.mark.parametrize("cut", [3, 4, 21])
def test_archives_are_written_anew(erased: icecore.Table, catalog: icecore.Catalog, cut: int) -> None:
    """Wherever the log was cut; the old archive is gone, the new one is read and verified like it."""
    table = erased
    before = facts(table)
    for last in (2, cut):
        assert catalog.archive(before=last + 1) is not None
    old = [catalog.path / a.file for a in catalog.archives()]
    assert table.forget().files == 1
    new = [catalog.path / a.file for a in catalog.archives()]
    assert new[0] == old[0] and new[1] != old[1] and not old[1].exists()
    assert traces_of(catalog.path, SECRET) == []
    assert catalog.verify().problems == ()
    assert facts(table) == before
    catalog.rebuild()
    assert catalog.verify().problems == ()
    assert len(catalog.at(3).load_table("ns.users").scan("email = 'x'").plan_files()) == 1
    assert catalog.archive(before=catalog.position) is not None
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_comes_in_with_its_holes(
    erased: icecore.Table, catalog: icecore.Catalog, tmp_path: Path, form: str
) -> None:
    """An exported log holds what is left, and is verified when it comes in; what is changed in it is found."""
    table = erased
    table.forget()
    out = io.BytesIO()
    catalog.export_log(out, form)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "log").write_bytes(out.getvalue())
    assert traces_of(tmp_path / "there", SECRET) == []
    with pytest.warns(MovedWarehouseWarning):
        icecore.import_log(tmp_path / "there" / "log", tmp_path / "copy")
    with pytest.warns(MovedWarehouseWarning), icecore.open(tmp_path / "copy") as copy:
        assert store_of(copy).head() == store_of(catalog).head()
        assert list(store_of(copy).events()) == list(store_of(catalog).events())
        [was, now] = (c.at(3).load_table("ns.users").scan("email = 'x'") for c in (catalog, copy))
        assert now.plan_files() and str(now.explain()) == str(was.explain())
        assert f"forgotten at position {catalog.position}" in str(now.explain().files["known"].to_pylist())


def test_what_was_forgotten_can_not_come_back(erased: icecore.Table, catalog: icecore.Catalog, tmp_path: Path) -> None:
    """An import in which an event holds what a later one says was forgotten is refused, and `verify` names it."""
    table = erased
    was = store_of(catalog).content(3)
    assert was is not None
    table.forget()
    loose = sqlite3.connect(catalog.path / "icecore.db")
    loose.execute("DROP TRIGGER event_content_is_append_only_update")
    loose.execute("UPDATE event_content SET data = ? WHERE position = 3", (was,))
    loose.commit()
    loose.close()
    assert any("position 3: its content files were changed" in p for p in catalog.verify().problems)
    with pytest.raises(CorruptLogError, match="position 3"):
        catalog.export_log(io.BytesIO())


def test_the_triggers_allow_nothing_else(erased: icecore.Table, catalog: icecore.Catalog) -> None:
    """After a forgetting as before it no statement changes an event, not even with a permit of its own."""
    erased.forget()
    connection = store_of(catalog).connection()
    connection.execute("BEGIN")
    connection.execute("INSERT INTO redaction VALUES (2, 'message')")
    for change in (
        "UPDATE event SET message = 'x' WHERE position = 4",
        "UPDATE event SET payload = '{}' WHERE position = 2",
        "UPDATE event SET hash = 'x' WHERE position = 2",
        "UPDATE event_content SET data = x'00' WHERE position = 3",
        "DELETE FROM event WHERE position = 2",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(change)
    connection.execute("ROLLBACK")
    catalog.create_namespace("later")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO redaction VALUES (2, 'message')")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("UPDATE event SET message = 'x' WHERE position = 2")
    connection.execute("ROLLBACK")


def test_a_process_that_loaded_the_values_writes_none_of_them_again(
    erased: icecore.Table, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """Another process may hold old segments: it lets them go, and what it merges goes on from what is left."""
    table = erased
    other = open_again().load_table("ns.users")
    assert other.scan("email < 'c'").count() == 1
    table.forget()
    for number in range(30, 60):
        other.append([row(number, f"n{number}@x.org")])
        assert other.scan("email < 'c'").count() == 1
    assert traces_of(catalog.path, SECRET) == []


def test_a_reader_in_the_way_puts_the_rest_off(
    erased: icecore.Table, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """What a reader of the database still sees can't be emptied: the next open does it."""
    table = erased
    reader = store_of(open_again())
    with reader.reading():
        reader.head()
        assert table.forget().files == 1
        assert catalog.verify().problems == ()
    open_again()
    assert traces_of(catalog.path, SECRET) == []


def test_the_command(erased: icecore.Table, catalog: icecore.Catalog) -> None:
    """Where nobody can be asked it does so only if told to; a dry run changes nothing."""
    position = catalog.position

    def run(*words: str, text: str = "") -> Any:
        return CliRunner().invoke(cli, ["forget", "-w", str(catalog.path), *words], input=text)

    assert "would forget bounds of 1 file in" in run("ns.users", "--dry-run").output
    assert run("ns.users", text="y\n").exit_code == 2
    assert store_of(catalog).head()[0] == position
    told = run("ns.users", "--column", "email", "--yes", "-o", "json", "-m", "asked for").output
    assert json.loads(told)["position"] == position + 1
    assert "forgot bounds of 1 file" in run("ns.users", "--yes").output
    assert traces_of(catalog.path, SECRET) == []


def test_a_log_of_early_events_forgets_too(erased: icecore.Table, catalog: icecore.Catalog) -> None:
    """Their content has a hash of its own in the envelope already."""
    table = erased
    store: EventStore = store_of(catalog)
    loose = store.connection()
    loose.execute("DROP TRIGGER event_is_append_only_update")
    previous = "0" * 64
    for event in list(store.events()):
        early = evolve(event, schema_version=1, prev_hash=previous).sealed()
        loose.execute(
            "UPDATE event SET schema_version = 1, prev_hash = ?, hash = ? WHERE position = ?",
            (early.prev_hash, early.hash, early.position),
        )
        previous = early.hash
    loose.execute("DELETE FROM checkpoint")
    assert catalog.verify().problems == ()
    assert catalog.load_table("ns.users").forget().files == 1
    assert catalog.verify().problems == ()
    assert facts(table)[0] == list(range(2, 20))  # type: ignore[index]  # the first of the facts is the rows
