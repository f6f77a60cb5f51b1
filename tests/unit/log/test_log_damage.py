"""A log that was tampered with: `verify` names the position, and nothing is rebuilt from it."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from core_tables import ids_of, local, make_table, repository_of, rows, store_of

import icecore
from icecore.engine.errors import CorruptLogError, IcecoreError, NoSuchTableError
from icecore.engine.formats.event_content import decode_content, encode_content
from icecore.engine.replay.kinds import TABLES


@pytest.fixture
def filled(catalog: icecore.Catalog) -> icecore.Catalog:
    """Positions: 1 namespace, 2 create, 3 and 4 appends with content, 5 properties, 6 another namespace."""
    table = make_table(catalog)
    table.append(rows(1), message="first")
    table.append(rows(2))
    table.set_properties({"a": "b"})
    catalog.create_namespace("last", {"k": "v"})
    return catalog


def tamper(catalog: icecore.Catalog, *statements: str) -> None:
    """Changes the log behind the triggers' back."""
    connection: sqlite3.Connection = store_of(catalog).connection()
    triggers = [r["name"] for r in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    connection.execute("PRAGMA foreign_keys = OFF")
    for name in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert connection.execute(statement).rowcount, f"{statement} changed nothing"


def problems(catalog: icecore.Catalog) -> str:
    """All problems that a fresh opener of the warehouse finds."""
    with icecore.open(catalog.path, read_only=True) as reader:
        found = reader.verify()
        assert not found.ok
        assert found.problems
        assert str(found).startswith(("1 problem in", f"{len(found.problems)} problems"))
        return "\n".join(found.problems)


def test_a_clean_log_has_no_problems(filled: icecore.Catalog) -> None:
    """Nothing is wrong before anything is tampered with; the figures are those of the log."""
    found = filled.verify()
    assert found.ok and found.problems == ()
    assert (found.events, found.tables) == (6, 1)
    assert found.head == store_of(filled).head()[1]
    assert str(found).startswith("ok: 6 events")


@pytest.mark.parametrize(
    ("change", "position"),
    [
        ("UPDATE event SET payload = replace(payload, 'b', 'c') WHERE position = 5", 5),
        ("UPDATE event SET message = 'second' WHERE position = 3", 3),
        ("UPDATE event SET actor = NULL WHERE position = 2", 2),
        ("UPDATE event SET recorded_at_ms = recorded_at_ms + 1 WHERE position = 4", 4),
        ("UPDATE event SET hash = substr(hash, 2) || '0' WHERE position = 3", 3),
        ("UPDATE event SET prev_hash = 'x' WHERE position = 4", 4),
        ("UPDATE event SET content_sha256 = NULL WHERE position = 3", 3),
        ("UPDATE event SET kind = 'table.dropped' WHERE position = 4", 4),
        ("UPDATE event SET payload = 'no json' WHERE position = 5", 5),
        ("UPDATE event SET payload = '[]' WHERE position = 5", 5),
        ("UPDATE event SET payload = '{}' WHERE position = 5", 5),
        ("UPDATE event SET payload = '{\"updates\":[{}]}' WHERE position = 5", 5),
        ("UPDATE event SET schema_version = 99 WHERE position = 5", 5),
        ("UPDATE event SET stream_version = 9 WHERE position = 5", 5),
        ("UPDATE event_content SET data = CAST(x'00' || substr(data, 2) AS BLOB) WHERE position = 3", 3),
        ("UPDATE event_content SET data = substr(data, 1, 40) WHERE position = 4", 4),
        ("UPDATE event_content SET position = 5 WHERE position = 4", 4),
        ("DELETE FROM event_content WHERE position = 3", 3),
        ("DELETE FROM event WHERE position = 3", 3),
    ],
)
def test_a_changed_row_is_found_with_its_position(filled: icecore.Catalog, change: str, position: int) -> None:
    """Any change of an event or its content is found, the position is named, and rebuild refuses."""
    tamper(filled, change)
    assert f"position {position}" in problems(filled) or f"events {position} to" in problems(filled)
    with pytest.raises(CorruptLogError, match="nothing is rebuilt"), icecore.open(filled.path) as writer:
        writer.rebuild()


def test_every_flipped_byte_of_content_is_found(filled: icecore.Catalog) -> None:
    """A flipped bit anywhere in the content of an event breaks its checksum."""
    data = store_of(filled).content(3)
    assert data is not None
    tamper(filled)
    connection = store_of(filled).connection()
    for at in range(0, len(data), max(1, len(data) // 12)):
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        connection.execute("UPDATE event_content SET data = ? WHERE position = 3", (flipped,))
        assert "position 3: its content files were changed" in problems(filled)
    connection.execute("UPDATE event_content SET data = ? WHERE position = 3", (data,))
    assert filled.verify().ok


def test_swapped_events_are_found(filled: icecore.Catalog) -> None:
    """Two events that change places break the chain at both."""
    tamper(
        filled,
        "UPDATE event SET position = -3 WHERE position = 3",
        "UPDATE event SET position = 3 WHERE position = 4",
        "UPDATE event SET position = 4 WHERE position = -3",
    )
    found = problems(filled)
    assert "position 3" in found and "position 4" in found


@pytest.mark.usefixtures("no_hint_to_come")
@pytest.mark.parametrize(("first_cut", "with_content"), [(6, False), (5, False), (4, True)])
def test_a_log_whose_end_was_cut_off_is_found(filled: icecore.Catalog, first_cut: int, with_content: bool) -> None:
    """The read models remember events that are gone, of tables and of namespaces."""
    content = [f"DELETE FROM event_content WHERE position >= {first_cut}"] if with_content else []
    tamper(filled, *content, f"DELETE FROM event WHERE position >= {first_cut}")
    found = problems(filled)
    assert ("namespace last" if first_cut == 6 else "cut off") in found


def test_an_event_that_was_slipped_in_is_found(filled: icecore.Catalog) -> None:
    """A forged event, even with a position that fits, does not chain."""
    tamper(
        filled,
        "INSERT INTO event SELECT 7, 'forged', stream, stream_version + 1, kind, schema_version, 'forged', "
        "recorded_at_ms + 1, actor, engine, message, NULL, NULL, NULL, payload, NULL, hash, 'forged' "
        "FROM event WHERE position = 6",
    )
    assert "position 7" in problems(filled)


def test_a_damaged_event_never_ends_in_a_key_error(filled: icecore.Catalog) -> None:
    """Loading a table whose events make no sense is an error of ours that names the position."""
    tamper(filled, "UPDATE event SET payload = '{}' WHERE position = 4")
    with icecore.open(filled.path, read_only=True) as reader, pytest.raises(CorruptLogError, match="position 4"):
        reader.load_table("ns.t")


def test_damaged_content_is_named_when_it_is_read(filled: icecore.Catalog) -> None:
    """Planning over content that can't be decoded names the position."""
    tamper(filled, "UPDATE event_content SET data = x'00' WHERE position = 3")
    with icecore.open(filled.path, read_only=True) as reader:
        segments = filled.path / ".icecore"
        assert not segments.exists() or not list(segments.rglob("*.segment"))
        with pytest.raises(CorruptLogError, match="position 3"):
            ids_of(reader.load_table("ns.t"))


@pytest.mark.filterwarnings("ignore::icecore.engine.foreign.adopter.ForeignCommitWarning")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("UPDATE stream_head SET stream_version = 99", "99"),
        ("UPDATE stream_head SET stream_version = 1, materialized_version = 1", "rebuild"),
        ("UPDATE stream_head SET materialized_version = 2", "written up to version 2 of 4"),
        ("DELETE FROM stream_head", "don't know it"),
        ("UPDATE catalog_name SET name = 'other'", "the read models ns.other"),
        ("DELETE FROM catalog_name", "nothing"),
        ("UPDATE iceberg_tables SET metadata_location = 'file:///else'", "file:///else"),
        ("DELETE FROM iceberg_tables", "iceberg_tables points at None"),
        ("UPDATE namespace SET properties = '{}' WHERE name = 'last'", "namespace last"),
        ("DELETE FROM namespace WHERE name = 'last'", "namespace last"),
        ("INSERT INTO namespace VALUES ('more', '{}')", "namespace more"),
    ],
)
def test_damaged_read_models_are_found(filled: icecore.Catalog, change: str, expected: str) -> None:
    """Read models that don't follow the log are found; where nobody else's commit is at stake, rebuild mends them."""
    tamper(filled, change)
    assert expected in problems(filled)
    if change == "DELETE FROM iceberg_tables":
        # To the log that is another engine that dropped the table.
        with icecore.open(filled.path) as writer:
            assert ids_of(writer.undrop_table("ns.t")) == [1, 2]
            assert writer.verify().problems == ()
    elif "file:///else" not in change:
        with icecore.open(filled.path, read_only=False) as writer:
            writer.rebuild()
            assert writer.verify().problems == ()
            assert ids_of(writer.load_table("ns.t")) == [1, 2]


@pytest.mark.parametrize("kind", ["metadata.json", ".avro"])
@pytest.mark.parametrize("damage", ["flip", "cut", "lose"])
def test_damaged_files_are_found_and_made_again(filled: icecore.Catalog, kind: str, damage: str) -> None:
    """A file made from the log that was changed, cut or lost is named; rebuild writes it again."""
    folder = local(filled.load_table("ns.t").metadata_location).parent
    path = max(p for p in folder.iterdir() if p.name.endswith(kind))
    data = path.read_bytes()
    match damage:
        case "flip":
            path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        case "cut":
            path.write_bytes(data[:-7])
        case _:
            path.unlink()
    assert path.name in problems(filled)
    filled.rebuild()
    assert path.read_bytes() == data
    assert filled.verify().ok


def test_a_wrong_checkpoint_is_found(filled: icecore.Catalog) -> None:
    """A checkpoint is checked against a replay; one that can't be read is named."""
    table = filled.load_table("ns.t")
    for i in range(70):
        table.set_properties({"i": str(i)})
    connection = store_of(filled).connection()
    found = connection.execute("SELECT stream, state FROM checkpoint").fetchall()
    assert found, "there is a checkpoint after so many events"
    assert filled.verify().ok
    state = TABLES.decode(found[-1]["state"], found[-1]["stream"])
    from attrs import evolve

    wrong = TABLES.encode(evolve(state, metadata_version=7))
    connection.execute("UPDATE checkpoint SET state = ?", (wrong,))
    assert "differs from a replay" in problems(filled)
    connection.execute("UPDATE checkpoint SET state = x'00'")
    assert "can't be read" in problems(filled)
    filled.rebuild()
    assert filled.verify().ok


def test_a_checkpoint_of_another_history_is_not_used(filled: icecore.Catalog) -> None:
    """A checkpoint whose event is not the log's is passed over, and the state replayed."""
    table = filled.load_table("ns.t")
    for i in range(70):
        table.set_properties({"i": str(i)})
    store_of(filled).connection().execute("UPDATE checkpoint SET event_hash = 'other', state = x'00'")
    with icecore.open(filled.path, read_only=True) as reader:
        assert reader.load_table("ns.t").state == table.state


def test_checkpoints_shorten_replays_and_stay_few(filled: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """After many commits only the events since the last checkpoint are folded, and old checkpoints go."""
    table = filled.load_table("ns.t")
    for i in range(200):
        table.set_properties({"i": str(i)})
    connection = store_of(filled).connection()
    assert 1 <= connection.execute("SELECT count(*) FROM checkpoint").fetchone()[0] <= 2
    with icecore.open(filled.path, read_only=True) as reader:
        store, folded = store_of(reader), []
        original = store.stream_events

        def counting(*args: Any, **kwargs: Any) -> Any:
            for event in original(*args, **kwargs):
                folded.append(event.position)
                yield event

        monkeypatch.setattr(store, "stream_events", counting)
        assert reader.load_table("ns.t").state == table.state
        assert len(folded) < 80


def test_content_of_other_columns_is_refused() -> None:
    """Arrow bytes that are no canonical entries, or no Arrow at all, are an error that names the position."""
    import io

    import pyarrow as pa

    sink = io.BytesIO()
    other = pa.table({"a": [1]})
    with pa.ipc.new_stream(sink, other.schema) as writer:
        writer.write_table(other)
    for data in (sink.getvalue(), b"", b"no arrow", encode_content_of_nothing()[:-30]):
        with pytest.raises(CorruptLogError, match="position 5"):
            decode_content(data, 5)


def encode_content_of_nothing() -> bytes:
    from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA

    return encode_content(ENTRY_SCHEMA.empty_table(), b"salt")


def test_an_unknown_stream_is_no_table(filled: icecore.Catalog) -> None:
    """A stream that the log doesn't have is an error of ours."""
    with pytest.raises(NoSuchTableError):
        repository_of(filled).state("table:none")
    with pytest.raises(IcecoreError):
        store_of(filled).event_at(99)


@pytest.mark.parametrize("column", ["recorded_at_ms", "payload", "hash", "stream_version"])
def test_an_event_without_a_value_that_it_must_have_is_named(filled: icecore.Catalog, column: str) -> None:
    """A page of zeros gives rows that no schema allows: the position and the column are named."""
    connection = store_of(filled).connection()
    tamper(filled)
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'event'").fetchone()
    connection.execute("PRAGMA writable_schema = ON")
    loose = sql.replace("NOT NULL", "")
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'event'", (loose,))
    connection.execute("PRAGMA writable_schema = RESET")
    connection.execute(f"UPDATE event SET {column} = NULL WHERE position = 3")
    with pytest.raises(CorruptLogError, match=f"position 3: its column {column} must hold"):
        filled.verify()
    with pytest.raises(CorruptLogError, match="position 3"):
        filled.rebuild()
