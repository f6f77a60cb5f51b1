"""A log carried away and brought in again is the same log, or is refused."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from core_tables import ids_of, local, make_table, rows, store_of

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import (
    CorruptFileError,
    CorruptLogError,
    MovedWarehouseWarning,
    StorageError,
    ValidationError,
)
from icecore.engine.formats.event_content import decode_content


@pytest.fixture
def filled(catalog: icecore.Catalog) -> icecore.Catalog:
    return fill(catalog)


def fill(catalog: icecore.Catalog) -> icecore.Catalog:
    """Tables with rows and deletes, one dropped, one written out by hand, a view; an idempotency key and a message."""
    table = make_table(catalog, format_version=3)
    table.append(rows(1, 2), message="grüße, 'quotes' and \n lines")
    table.append(rows(3))
    table.delete("id = 2")
    make_table(catalog, "gone").append(rows(9))
    catalog.drop_table("ns.gone")
    later = make_table(catalog, "later", properties={"icecore.materialize": "manual"})
    later.append(rows(4))
    catalog.create_view("ns.v", "SELECT id FROM t")
    return catalog


def lose_log(catalog: icecore.Catalog) -> None:
    """The warehouse without its log: data and metadata files are there."""
    catalog.close()
    for ending in ("", "-wal", "-shm"):
        (catalog.path / f"icecore.db{ending}").unlink(missing_ok=True)


def log_of(catalog: icecore.Catalog) -> list[tuple[Any, bytes | None]]:
    store = store_of(catalog)
    return [(e, store.content(e.position)) for e in store.events()]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("materialize", [True, False])
def test_an_imported_log_is_the_same_log(filled: icecore.Catalog, tmp_path: Path, form: str, materialize: bool) -> None:
    """Positions, ids, hashes, payloads and content; the read models follow, other engines read the tables."""
    file = tmp_path / "log.bin"
    assert filled.export_log(file, form) == filled.position
    before, view = log_of(filled), filled.load_view("ns.v").metadata
    table = filled.load_table("ns.t").state.metadata
    lose_log(filled)
    found = icecore.import_log(file, filled.path, materialize=materialize)
    assert (found.events, found.head) == (len(before), before[-1][0].hash)
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []
    with icecore.open(filled.path) as copy:
        assert log_of(copy) == before
        assert copy.verify().problems == ()
        assert ids_of(copy.load_table("ns.t")) == [1, 3] and ids_of(copy.load_table("ns.later")) == [4]
        assert copy.load_view("ns.v").metadata == view
        assert copy.load_table("ns.t").state.metadata == table
        assert copy.undrop_table("ns.gone").name() == ("ns", "gone")
        copy.materialize()
        copy.load_table("ns.t").append(rows(5))
        assert ids_of(copy.load_table("ns.t")) == [1, 3, 5] and copy.verify().ok


def test_lost_metadata_files_are_written_again_with_the_same_bytes(filled: icecore.Catalog, tmp_path: Path) -> None:
    folder = local(filled.load_table("ns.t").metadata_location).parent
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    filled.export_log(tmp_path / "log")
    shutil.rmtree(folder)
    lose_log(filled)
    icecore.import_log(tmp_path / "log", filled.path)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    with icecore.open(filled.path) as copy:
        assert ids_of(copy.load_table("ns.t")) == [1, 3]


def test_json_lines_are_cloud_events(filled: icecore.Catalog) -> None:
    """CloudEvents 1.0: required attributes, names of lower-case letters and digits, no number beyond 32 bits."""
    out = io.BytesIO()
    filled.export_log(out)
    lines = [orjson.loads(line) for line in out.getvalue().splitlines()]
    events = list(store_of(filled).events())
    assert len(lines) == len(events)
    for line, event in zip(lines, events, strict=True):
        assert (line["specversion"], line["id"], line["subject"]) == ("1.0", event.event_id, event.stream)
        assert line["type"] == f"icecore.{event.kind}" and line["source"].startswith("urn:uuid:")
        assert line["time"].endswith("Z") and line["datacontenttype"] == "application/json"
        assert line["data"] == event.payload and line["payload"] == event.payload_text
        assert (line["position"], line["hash"], line["prevhash"]) == (str(event.position), event.hash, event.prev_hash)
        assert all(k.isalnum() and k.islower() for k in line)
        assert all(isinstance(v, str) or v < 2**31 for k, v in line.items() if k != "data")
        content = store_of(filled).content(event.position)
        assert (None if content is None else base64.b64encode(content).decode()) == line.get("content")


def test_parquet_holds_the_content_as_it_is(filled: icecore.Catalog, tmp_path: Path) -> None:
    filled.export_log(tmp_path / "log.parquet", "parquet")
    table = pq.read_table(tmp_path / "log.parquet")
    assert table["position"].to_pylist() == list(range(1, filled.position + 1))
    with_content = [r for r in table.to_pylist() if r["content"] is not None]
    assert with_content
    for row in with_content:
        assert decode_content(row["content"], row["position"]).num_rows == row["content_rows"]


def change(field: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda found: found[3].update({field: value})


DAMAGE: dict[str, tuple[Callable[[list[dict[str, Any]]], Any], type[Exception], str]] = {
    "an event is missing": (lambda found: found.pop(2), CorruptLogError, "position 4: it follows position 2"),
    "the start is missing": (lambda found: found.pop(0), CorruptLogError, "position 2: it follows position 0"),
    "the order changed": (lambda found: found.reverse(), CorruptLogError, "it follows position 0"),
    "another author": (change("actor", "mallory"), CorruptLogError, "position 4: it was changed after it was written"),
    "another hash": (change("hash", "0" * 64), CorruptLogError, "position 4: it was changed"),
    "another previous hash": (change("prevhash", "0" * 64), CorruptLogError, "the hashes don't chain"),
    "other data": (change("data", {}), CorruptFileError, "line 4: data is not what the payload says"),
    "no content": (change("content", None), CorruptLogError, "position 4: its content files are missing"),
    "other content": (change("content", "AAAA"), CorruptLogError, "content files were changed"),
    "content that is no base64": (change("content", "!"), CorruptFileError, "line 4 is no event"),
    "content that is not even ASCII": (change("content", "é"), CorruptFileError, "line 4 is no event"),
    "a position with two signs": (change("position", "--5"), CorruptFileError, "line 4 is no event"),
    "content that is no text": (change("content", 4), CorruptFileError, "its content is no text"),
    "content that nobody knows of": (
        lambda found: found[0].update(content="AAAA"),
        CorruptLogError,
        "position 1: it has content files it knows nothing of",
    ),
    "no position": (lambda found: found[1].pop("position"), CorruptFileError, "line 2 is no event: position must be"),
    "a number for a name": (change("actor", 7), CorruptFileError, "actor must be str, found 7"),
    "no payload": (change("payload", "{"), CorruptFileError, "its payload is not JSON"),
    "no CloudEvent": (change("specversion", "0.3"), CorruptFileError, "no CloudEvent"),
    "nothing": (lambda found: found.clear(), ValidationError, "holds no events"),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of a log."""
    folder = tmp_path_factory.mktemp("exported")
    with icecore.open(folder / "warehouse") as catalog:
        catalog.create_namespace("ns")
        fill(catalog).export_log(folder / "log")
    return (folder / "log").read_bytes().splitlines()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_log_is_refused_and_nothing_is_left(exported: list[bytes], tmp_path: Path, damage: str) -> None:
    found = [orjson.loads(line) for line in exported]
    harm, error, text = DAMAGE[damage]
    harm(found)
    (tmp_path / "log").write_bytes(b"\n".join(orjson.dumps(f) for f in found))
    with pytest.raises(error, match=text):
        icecore.import_log(tmp_path / "log", tmp_path / "copy")
    assert not (tmp_path / "copy" / "icecore.db").exists()


def test_a_warehouse_that_is_not_empty_is_refused_and_stays(filled: icecore.Catalog, tmp_path: Path) -> None:
    filled.export_log(tmp_path / "log")
    before = log_of(filled)
    with pytest.raises(ValidationError, match="is not empty: its log has"):
        icecore.import_log(tmp_path / "log", filled.path)
    assert log_of(filled) == before and filled.verify().ok
    icecore.open(tmp_path / "empty", name="mine").close()
    with pytest.warns(MovedWarehouseWarning):
        icecore.import_log(tmp_path / "log", tmp_path / "empty")
    with pytest.warns(MovedWarehouseWarning), icecore.open(tmp_path / "empty") as empty:
        assert empty.name == "mine" and log_of(empty) == before


def test_files_that_are_no_log_are_refused(filled: icecore.Catalog, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    for name, error, text in (
        ("text", CorruptFileError, "line 1 is no event"),
        ("other.parquet", CorruptFileError, "lacks the columns"),
        ("torn.parquet", CorruptFileError, "can't be read as Parquet"),
        ("missing", StorageError, "can't read"),
    ):
        with pytest.raises(error, match=text):
            icecore.import_log(tmp_path / name, tmp_path / "copy")
    with pytest.raises(ValidationError, match="exported as jsonl or parquet, found 'xml'"):
        filled.export_log(tmp_path / "log", "xml")
    with pytest.raises(StorageError, match="can't write"):
        filled.export_log(tmp_path / "no" / "such" / "folder")


@pytest.mark.parametrize("file", ["log.jsonl", "log.parquet"])
def test_the_commands_are_thin_over_it(filled: icecore.Catalog, tmp_path: Path, file: str) -> None:
    target, copy = str(tmp_path / file), str(tmp_path / "copy")
    head = store_of(filled).head()[1]
    done = CliRunner().invoke(cli, ["-w", str(filled.path), "export", target])
    assert done.exit_code == 0, done.output
    assert f"wrote {filled.position} events to" in done.output.replace("\n", " ")
    with pytest.warns(MovedWarehouseWarning, match=f"{copy} holds a warehouse .* moved from {filled.path}"):
        done = CliRunner().invoke(cli, ["-w", copy, "-o", "json", "import", target, "--name", "mine"])
    assert done.exit_code == 0, done.output
    told = {"events": filled.position, "head": head, "belongs_to": f"file://{filled.path}"}
    assert json.loads(done.output) == {"warehouse": copy, **told}
    with pytest.warns(MovedWarehouseWarning):
        done = CliRunner().invoke(cli, ["-w", copy, "import", target])
    assert done.exit_code == 1 and "is not empty" in done.output
    lose_log(filled)
    done = CliRunner().invoke(cli, ["-w", str(filled.path), "import", target, "--name", "mine"])
    assert done.exit_code == 0, done.output
    with icecore.open(filled.path) as made:
        assert made.name == "mine" and made.verify().ok


@pytest.mark.parametrize("kept", [1, 5])
def test_an_export_that_was_cut_off_is_refused(filled: icecore.Catalog, tmp_path: Path, kept: int) -> None:
    """Its chain is whole as far as it goes. Exports of earlier releases do not say how far that should be."""
    filled.export_log(tmp_path / "log.jsonl")
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    with pytest.raises(CorruptFileError, match=rf"was cut off: it has {kept} events of {filled.position}"):
        icecore.import_log(io.BytesIO(b"".join(lines[:kept])), tmp_path / "other")
    assert not (tmp_path / "other" / "icecore.db").exists()
    earlier = [{k: v for k, v in orjson.loads(line).items() if k != "lastposition"} for line in lines[:kept]]
    with pytest.warns(MovedWarehouseWarning):
        imported = icecore.import_log(io.BytesIO(b"\n".join(map(orjson.dumps, earlier))), tmp_path / "other")
    assert imported.events == kept


def test_a_last_position_of_more_digits_than_any_number_is_none(filled: icecore.Catalog, tmp_path: Path) -> None:
    exported = io.BytesIO()
    filled.export_log(exported)
    lines = [{**orjson.loads(line), "lastposition": "9" * 5000} for line in exported.getvalue().splitlines()]
    with pytest.warns(MovedWarehouseWarning):
        imported = icecore.import_log(io.BytesIO(b"\n".join(map(orjson.dumps, lines))), tmp_path / "other")
    assert imported.events == filled.position


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_is_of_one_moment(catalog: icecore.Catalog, tmp_path: Path, form: str) -> None:
    """What is forgotten while it is written does not break its chain, and it can be imported."""
    table = make_table(catalog)
    table.append(rows(1))
    table.delete("id = 1")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    position = catalog.position

    class Written(io.BytesIO):
        def write(self, data: Any) -> int:
            if catalog.position == position:
                with icecore.open(catalog.path) as other:
                    other.load_table("ns.t").forget(columns=["name"])
            return super().write(data)

    written = Written()
    assert catalog.export_log(written, form) == position < catalog.position
    with pytest.warns(MovedWarehouseWarning):
        assert icecore.import_log(written, tmp_path / "other", materialize=False).events == position
