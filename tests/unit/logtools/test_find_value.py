"""The search for a value finds it wherever it is kept, and says that it is nowhere only where nothing is left of it."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from core_tables import make_table, rows, store_of

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import NoSuchTableError, ValidationError
from icecore.engine.forget.find_value import FoundValue
from icecore.engine.formats.puffin import Blob, decode_footer, with_blobs, write_puffin
from icecore.engine.log import chain
from icecore.engine.log.store import EventStore
from icecore.engine.storage.atomic_write import put_text
from icecore.projections.stored_plans.plan_store import PlanStore

NAME = "Ottoline Featherstonehaugh"


def people(*ids: int) -> pa.Table:
    """Rows, the first of which has the name."""
    return rows(*ids).set_column(1, "name", [[NAME, *(f"n{i}" for i in ids[1:])]])


def kinds(found: FoundValue) -> dict[str, list[str]]:
    """What is told of places by kind."""
    out: dict[str, list[str]] = {}
    for p in found.places:
        out.setdefault(p.kind, []).append(",".join(p.what) if p.kind != "file" else f"{p.where[-8:]} {p.what[0]}")
    return {kind: sorted(told) for kind, told in out.items()}


def test_it_is_found_until_it_is_erased(catalog: icecore.Catalog, warehouse: Path) -> None:
    """In rows, deleted ones too, then in what only history holds, then nowhere; the answer tells what it relies on."""
    table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
    table.append(people(1, 2))
    first = table.current_snapshot()
    assert first is not None
    found = catalog.find_value(NAME)
    [file] = [p for p in found.places if p.kind == "file" and p.where.endswith(".parquet")]
    assert (file.what, file.count, file.table, file.refs) == (("name",), 1, "ns.t", ("main",))
    assert file.snapshots == (first.snapshot_id,) and {"bounds", "file"} == set(kinds(found))
    table.delete("id = 1")
    assert "uet name" in str(kinds(catalog.find_value(NAME))["file"]), "a deleted row is there as long as its file"
    table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"})
    [old] = [p for p in catalog.find_value(NAME).places if p.where.endswith(".parquet")]
    assert old.refs == ("main",), "it is reachable by the history of main"
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    left = catalog.find_value(NAME)
    assert not left.is_nowhere and {p.kind for p in left.places} <= {"bounds", "file"}
    assert all(not p.snapshots for p in left.places)
    table.refresh().forget(columns=["name"])
    table.maintenance.remove_orphan_files(older_than=dt.datetime.now() + dt.timedelta(days=1), allow_recent=True)
    gone = catalog.find_value(NAME)
    assert gone.is_nowhere, gone.places
    position, head, _ = store_of(catalog).head()
    assert (gone.position, gone.log_hash, gone.chain_ok) == (position, head, True)
    assert gone.searched["events"] == position and gone.searched["files"] > 3
    evidence = json.loads(gone.to_json())
    assert NAME not in gone.to_json() and evidence["is_nowhere"] and len(evidence["sha256"]) == 64


def test_the_log_and_stray_files_are_searched(catalog: icecore.Catalog, warehouse: Path) -> None:
    """Messages, authors, properties and summaries, dropped tables, archives, files that nothing needs, also packed."""
    table = make_table(catalog)
    table.append(rows(1), message=f"for {NAME}", author=NAME)
    table.set_properties({"owner": NAME})
    catalog.drop_table("ns.t")
    catalog.update_namespace_properties("ns", updates={"owner": NAME})
    catalog.archive(catalog.position)
    stray = warehouse / "stray"
    stray.mkdir()
    (stray / "note.txt").write_text(f"{NAME} was here")
    (stray / "note.json.gz").write_bytes(gzip.compress(json.dumps({"n": "Zo\\u00eb " + NAME}).encode()))
    found = catalog.find_value(NAME)
    assert kinds(found)["event"] == ["actor,message", "payload", "payload"]
    strays = [p for p in found.places if "/stray/" in p.where]
    assert len(strays) == 2 and not any(p.snapshots for p in strays)
    (stray / "broken.parquet").write_bytes(b"PAR1 no more")
    assert [Path(p).name for p in catalog.find_value("nobody at all").unread] == ["broken.parquet"]
    assert not catalog.find_value("nobody at all").is_nowhere


@pytest.mark.parametrize(
    "value",
    [f"mailto:{NAME}", f"to {NAME}", f"{NAME[:15]}¿¿ and so on"],
    ids=["in the middle", "a word on", "upper bound"],
)
def test_bounds_that_are_cut_short_are_found_by_what_is_left_of_it(catalog: icecore.Catalog, value: str) -> None:
    """A bound has 16 characters; the last one of an upper bound is the next, of which all bytes may be others."""
    table = make_table(catalog)
    table.append(rows(1, 2).set_column(1, "name", [["A", value]]))
    table.delete("true")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    assert "bounds" in kinds(catalog.find_value(NAME if NAME in value else value, table="ns.t"))
    assert catalog.find_value("nobody at all", table="ns.t").is_nowhere


def test_names_of_files_and_folders_are_searched(catalog: icecore.Catalog, warehouse: Path) -> None:
    """Those of partitions have values in them, percent-encoded, and go with their last file."""
    mail = "zoe@example.org"
    table = catalog.create_table("ns.t", pa.schema([("mail", pa.string())]), partition_spec=["mail"])
    table.append([{"mail": mail}, {"mail": "kept@example.org"}])
    assert [p.kind for p in catalog.find_value(mail).places].count("name") == 1
    table.delete(f"mail = '{mail}'")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    assert [p.name for p in (warehouse / "ns" / "t" / "data").iterdir()] == ["mail=kept%40example.org"]
    table.delete("true")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    assert list((warehouse / "ns" / "t" / "data").iterdir()) == []
    table.append([{"mail": "new@example.org"}])
    (warehouse / "stray" / "mail=zoe%40example.org").mkdir(parents=True)
    (warehouse / "stray" / f"of {mail}.txt").write_text("nothing")
    found = catalog.find_value(mail)
    names = [p for p in found.places if p.kind == "name"]
    assert [p.where.rpartition("/")[2] for p in names] == ["mail=zoe%40example.org", "of zoe@example.org.txt"]
    in_log = [int(p.where) for p in found.places if p.kind == "bounds"]
    deletions = [e["position"] for e in catalog.log().to_pylist() if e["kind"] == "table.files-deleted"]
    assert deletions[0] in in_log, "the paths of files that the expiry deleted"
    assert not any(p.kind == "name" for p in catalog.find_value("nobody at all").places)


def test_one_column_and_other_types(catalog: icecore.Catalog) -> None:
    """A number is found where a column has it, and its bounds have; not in other columns or tables."""
    schema = pa.schema([("id", pa.int64()), ("born", pa.date32()), ("tags", pa.list_(pa.string()))])
    table = catalog.create_table("ns.t", schema)
    table.append([{"id": 777, "born": dt.date(1990, 2, 3), "tags": ["a", NAME]}])
    make_table(catalog, "other").append(rows(777))
    of_id = catalog.find_value(777, table="ns.t", column="id")
    in_row = f"{table.files()['file_path'][0].as_py()[-8:]} id"
    assert kinds(of_id)["file"] == ["-m0.avro blocks", in_row] and "bounds" in kinds(of_id)
    for digit in range(10):  # digits stand in names of files and in hashes
        assert catalog.find_value(digit, table="ns.t", column="born").is_nowhere
    assert not catalog.find_value("1990-02-03", table="ns.t", column="born").is_nowhere
    small = catalog.create_table("ns.small", pa.schema([("id", pa.int32()), ("part", pa.float32())]))
    small.append([{"id": 777, "part": 0.5}])
    small.update_schema().update_column("id", "long").update_column("part", "double").commit()
    for value, name in ((777, "id"), (0.5, "part")):
        assert "bounds" in kinds(catalog.find_value(value, table="ns.small", column=name)), "from before a promotion"
    assert catalog.find_value(NAME[:8], table="ns.t", column="tags", exact=True).is_nowhere
    assert not catalog.find_value(NAME[:8], table="ns.t", column="tags").is_nowhere
    for wrong in ({"column": "id"}, {"table": "ns.t", "column": "nothing"}):
        with pytest.raises(ValidationError):
            catalog.find_value(1, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="empty"):
        catalog.find_value("")
    with pytest.raises(NoSuchTableError):
        catalog.find_value(1, table="ns.nothing")


def test_bounds_of_all_types_match(catalog: icecore.Catalog) -> None:
    """The log's bounds hold them when the files are gone: in any search, in one of the column, and of what it is in."""
    user = uuid.UUID(int=77)
    told: list[tuple[pa.DataType, Any, str, str]] = [
        (pa.int64(), 4711, "4711", "c"),
        (pa.float64(), 0.25, "0.25", "c"),
        (pa.decimal128(9, 2), Decimal("12.50"), "12.5", "c"),
        (pa.timestamp("us"), dt.datetime(2024, 1, 2, 3, 4), "2024-01-02 03:04", "c"),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 2, 3, 4, tzinfo=dt.UTC), "2024-01-02T04:04+01:00", "c"),
        (pa.time64("us"), dt.time(1, 2, 3), "01:02:03", "c"),
        (pa.uuid(), user.bytes, str(user), "c"),
        (pa.struct([("city", pa.string())]), {"city": NAME}, NAME, "c"),
        (pa.struct([("n", pa.int32())]), {"n": 4712}, "4712", "c.n"),
    ]
    schema = pa.schema([(f"c{i}", kind) for i, (kind, *_) in enumerate(told)])
    table = catalog.create_table("ns.t", schema, partition_spec=["c0", "c5"])
    table.append([{f"c{i}": value for i, (_, value, *_) in enumerate(told)}])
    table.delete("c0 = 4711")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    for i, (_, _, text, column) in enumerate(told):
        in_column = catalog.find_value(text, table="ns.t", column=column.replace("c", f"c{i}"))
        for found in (catalog.find_value(text), in_column):
            assert "bounds" in kinds(found), (text, found)
    for digit in range(10):  # they are in the names of files that the expiry deleted
        assert catalog.find_value(digit, table="ns.t", column="c0").is_nowhere
    unwritten = make_table(catalog, "unwritten", properties={"icecore.materialize": "manual"})
    unwritten.append(rows(1))
    assert not catalog.find_value(4713, table="ns.unwritten").unread, "manifests that are only in the log"


def test_a_default_is_the_value_of_rows_that_no_file_holds(catalog: icecore.Catalog) -> None:
    many = 471_108_154_711  # more digits than happen to be in an id
    table = make_table(catalog, properties={"format-version": "3"})
    table.append(rows(1))
    with table.update_schema() as change:
        change.add_column("points", "long", default_value=many).add_column("town", "string", default_value=NAME)
    assert table.scan(f"points = {many}").count() == 1
    of_column = catalog.find_value(many, table="ns.t", column="points")
    assert [(p.kind, p.what) for p in of_column.places] == [("event", ("default",))]
    assert kinds(catalog.find_value(many))["event"] == ["default"]
    assert kinds(catalog.find_value(NAME, table="ns.t", column="town"))["event"] == ["payload"]
    assert catalog.find_value(many, table="ns.t", column="id").is_nowhere


def test_manifests_that_nothing_needs_are_searched_by_what_their_entries_hold(
    catalog: icecore.Catalog, warehouse: Path
) -> None:
    """Once the log forgot the bounds, such a file has the beginning of a text, and numbers as bytes."""
    table = make_table(catalog)
    table.append(people(4711))
    [manifest] = (warehouse / "ns" / "t" / "metadata").glob("*-m0.avro")
    data = manifest.read_bytes()
    table.delete("true")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    table.refresh().forget()
    searches: list[dict[str, Any]] = [
        {"value": NAME},
        {"value": NAME, "table": "ns.t", "column": "name"},
        {"value": 4711, "table": "ns.t", "column": "id"},
    ]
    for asked in searches:
        assert catalog.find_value(**asked).is_nowhere
    manifest.write_bytes(data)
    for asked in searches:
        assert kinds(catalog.find_value(**asked)) == {"file": ["-m0.avro blocks"]}, asked


def test_folders_of_tables_and_views_elsewhere_are_searched(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Files that nothing needs too, also of what was dropped."""
    places = [tmp_path / name for name in ("table", "dropped", "view")]
    for name in ("table", "dropped"):
        make_table(catalog, name, location=str(tmp_path / name)).append(rows(1))
    catalog.drop_table("ns.dropped")
    catalog.create_view("ns.view", "SELECT 1 AS a", location=str(tmp_path / "view"))
    for place in places:
        place.mkdir(exist_ok=True)
        (place / "stray.txt").write_text(NAME)
    found = catalog.find_value(NAME)
    assert sorted(Path(p.where).parent.name for p in found.places) == ["dropped", "table", "view"]


def test_named_plans_are_searched_and_forgotten(catalog: icecore.Catalog) -> None:
    """Their filters are whoever asked for them, not the log's."""
    table = make_table(catalog)
    table.append(rows(1))
    table.prefetch(f"name = '{NAME}'", name="by name")
    table.prefetch("id = 1", name=f"for {NAME}")
    table.prefetch("id = 1", name="kept")
    for found in (catalog.find_value(NAME), catalog.find_value(NAME, table="ns.t")):
        assert {kind: len(told) for kind, told in kinds(found).items()} == {"file": 2, "name": 1}
    catalog.forget_text(NAME, dry_run=True)
    assert len(table.named_plans()) == 3
    catalog.forget_text(NAME)
    assert catalog.find_value(NAME).is_nowhere and table.named_plans() == ["kept"]


def test_a_plan_that_is_dropped_meanwhile_is_forgotten(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    table.prefetch(f"name = '{NAME}'", name="z")
    names = PlanStore.names
    monkeypatch.setattr(PlanStore, "names", lambda store: ["dropped", *names(store)])
    assert catalog.find_value(NAME).places
    catalog.forget_text(NAME)
    assert table.named_plans() == ["dropped"]


def test_in_the_shell(catalog: icecore.Catalog, warehouse: Path, tmp_path: Path) -> None:
    make_table(catalog).append(people(1))
    kept = tmp_path / "evidence.json"
    there = CliRunner().invoke(cli, ["-w", str(warehouse), "where-is", NAME, "--evidence", str(kept)])
    assert there.exit_code == 1 and "place" in there.output and NAME not in kept.read_text()
    nowhere = CliRunner().invoke(cli, ["-w", str(warehouse), "where-is", "nobody at all"])
    assert nowhere.exit_code == 0 and nowhere.output.startswith("nowhere: searched ")


def test_evidence_that_can_not_be_kept_is_told_before_the_search(warehouse: Path, tmp_path: Path) -> None:
    """Which may take hours; what fails at its end names the file that was asked for."""
    there = tmp_path / "nothing" / "evidence.json"
    refused = CliRunner().invoke(cli, ["-w", str(warehouse), "where-is", NAME, "--evidence", str(there)])
    assert refused.exit_code == 2 and f"there is no folder {there.parent} for the evidence" in refused.stderr
    with pytest.raises(FileNotFoundError) as failed:
        put_text(there, "text")
    assert failed.value.filename == str(there)


def test_of_one_table_only_what_was_searched_is_counted(catalog: icecore.Catalog, warehouse: Path) -> None:
    """An answer that names the events of all tables would be evidence of a search that was not made."""
    make_table(catalog).append(people(1))
    catalog.drop_table("ns.t")
    make_table(catalog).append(people(2))
    catalog.rename_table("ns.t", "ns.other")
    make_table(catalog)
    make_table(catalog, "u")
    one = catalog.find_value("1", table="ns.t")
    assert [one.searched[n] for n in ("events", "tables", "dropped_tables", "snapshots")] == [1, 1, 0, 0]
    assert [catalog.find_value("1").searched[n] for n in ("tables", "dropped_tables")] == [3, 1]
    asked = CliRunner().invoke(cli, ["-w", str(warehouse), "where-is", NAME, "--table", "ns.t"])
    assert asked.stdout.startswith("nowhere: searched 1 event, 1 table, 0 snapshots, ")
    assert asked.stderr == "note: 2 others had the name ns.t before: without --table all are searched\n"
    assert CliRunner().invoke(cli, ["-w", str(warehouse), "where-is", NAME, "--table", "ns.u"]).stderr == ""
    assert "4 tables" in CliRunner().invoke(cli, ["-w", str(warehouse), "where-is", NAME]).stdout


def test_matches_of_all_parts_of_a_file_are_counted_and_what_is_encrypted_is_not_called_read(
    catalog: icecore.Catalog, warehouse: Path
) -> None:
    make_table(catalog)
    folder = warehouse / "ns" / "t" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"name": [NAME, "x", NAME, NAME]}), folder / "parts.parquet", row_group_size=1)
    (folder / "locked.parquet").write_bytes(b"PARE" + b"\x00" * 20 + b"PARE")
    found = catalog.find_value(NAME)
    [place] = [p for p in found.places if p.where.endswith("parts.parquet")]
    assert place.count == 3
    assert any(where.endswith("locked.parquet") for where in found.unread) and not found.is_nowhere


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_statistics_are_searched_as_they_are_unpacked(
    catalog: icecore.Catalog, warehouse: Path, codec: str | None
) -> None:
    """What is in a footer or blob is found, however it is compressed."""
    make_table(catalog)
    words = f"{NAME} and {NAME}".encode() + b"-" * 1000
    blob = Blob("of-another", (1,), 1, 1, words, codec, {"most": f"{NAME} in footers"})
    data = write_puffin([blob], compress_footer=codec is not None).data
    (warehouse / "ns" / "t").mkdir(parents=True, exist_ok=True)
    (warehouse / "ns" / "t" / "a.stats").write_bytes(data)
    assert sorted((p.what, p.count) for p in catalog.find_value(NAME).places) == [(("blobs",), 2), (("footer",), 1)]
    (warehouse / "ns" / "t" / "a.stats").write_bytes(with_blobs(data, decode_footer(data, "a"), ()))
    if codec is None:
        assert [(p.what, p.count) for p in catalog.find_value(NAME).places] == [(("text",), 2)], "no blob has it now"
    (warehouse / "ns" / "t" / "a.stats").write_bytes(data[:-4])
    assert len(catalog.find_value("nobody at all").unread) == 1


def test_what_is_archived_meanwhile_does_not_break_the_chain(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain is checked as of one moment."""
    make_table(catalog).append(rows(1))
    needed = chain._needed_positions

    def archived_before(store: EventStore, after: int) -> frozenset[int]:
        with icecore.open(catalog.path) as other:
            other.archive(before=3)
        return needed(store, after)

    monkeypatch.setattr(chain, "_needed_positions", archived_before)
    assert catalog.find_value("nowhere").is_nowhere
    assert len(catalog.archives()) == 1
