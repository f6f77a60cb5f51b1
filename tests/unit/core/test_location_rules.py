"""Locations under rules: inside of the warehouse or the folders that are allowed, and in nobody else's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from attrs import evolve
from client_writes import ClientCatalog, Updates
from core_tables import SCHEMA, ids_of, local, peer_ids, pyiceberg_catalog, repository_of, rows
from hypothesis import example, given
from hypothesis import strategies as st

import icecore
from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.errors import ForbiddenLocationError, ForeignCommitError, ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.formats.manifest_list_avro import read_manifest_list, write_manifest_list
from icecore.engine.spec.snapshot import StatisticsFile
from icecore.engine.spec.updates.metadata_update import SetLocation, SetProperties
from icecore.engine.spec.updates.table_update import SetStatistics
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.location_rules import LocationRules

MANUAL = {"icecore.materialize": "manual"}


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[icecore.Catalog]:
    """A warehouse whose tables may be in its folder and in `allowed`, each in its own place."""
    for name in ("allowed", "outside", "wh2"):
        (tmp_path / name).mkdir()
    roots = [str(tmp_path / "allowed"), "s3://bucket/tables"]
    with icecore.open(tmp_path / "wh", location_roots=roots, unique_locations=True) as opened:
        opened.create_namespace("ns")
        yield opened


def outside_of(tmp_path: Path) -> set[Path]:
    """The files that are there beside the warehouse."""
    return {p for p in tmp_path.rglob("*") if p.is_file() and not p.is_relative_to(tmp_path / "wh")}


# `{w}` is the warehouse's folder, `{a}` the allowed one, `{t}` the folder around both, `{s}` its path without a slash.
FORBIDDEN = [
    "/etc/x",
    "file:///etc/x",
    "file:/etc/x",
    "{t}/outside/x",
    "file://{t}/outside/x",
    "file:{t}/outside/x",
    "file:////{s}/outside/x",
    "{w}/../outside/x",
    "file://{w}/ns/../../outside/x",
    "file://{w}/%2e%2e/outside/x",
    "file://{w}/%2E./outside/x",
    "file://{w}/.%2e/outside/x",
    "file://{w}/%252e%252e/outside/x",
    "file://{w}%2f..%2foutside/x",
    "file://{w}/..%2foutside/x",
    "file://{t}/outside/?/../../wh/x",
    "file://{t}/outside/#/../../wh/x",
    "{t}/outside%2f../wh/x/../../outside",
    "{t}/wh2/x",
    "{t}/WH/x",
    "{t}",
    "{w}",
    "file://{w}/",
    "{w}/.",
    "{w}/ns/..",
    "{w}/.icecore/x",
    "{w}/.icecore-tables/x",
    "{w}/icecore.db",
    "{w}/ICECORE.db-wal/x",
    "{w}/x/../.icecore/segments",
    "file://{w}/%2eicecore/x",
    "{w}/link/x",
    "{w}/inner/x",
    "{w}/link",
    "file://{w}/lin%6b/x",
    "{w}/a\\..\\..\\outside",
    "{w}/a\nb",
    "file://localhost{w}/x",
    "file://{s}/wh/x",
    "FILE://{w}/x",
    "File:{w}/x",
    "file:relative/x",
    "{w}/" + "x" * 5000,
    "s3://bucket/x",
    "s3://bucket/tables",
    "s3://bucket/tables2/x",
    "s3://bucket/tables/../x",
    "s3://bucket/tables/%2e%2e/x",
    "s3://other/tables/x",
    "s3:bucket/tables/x",
    "hdfs://bucket/tables/x",
    "://x",
]
ALLOWED = [
    "{w}/deep/er/x",
    "file://{w}/ns/y/../z",
    "file:{w}/one",
    "{a}/x",
    "file://{a}/b c/100%/é",
    "file://{w}/%41",
    "file:///{w}/many",
]


def places(catalog: icecore.Catalog, texts: list[str]) -> dict[str, str]:
    """The locations of the lists, by their text; some go through links that are made for them."""
    around = catalog.path.parent
    (catalog.path / "link").symlink_to(around / "outside")
    (catalog.path / "inner").symlink_to(catalog.path / "ns")
    told = {"w": str(catalog.path), "a": f"{around}/allowed", "t": str(around), "s": str(around).lstrip("/")}
    return {text: text.format(**told) for text in texts}


def commit_updates(catalog: icecore.Catalog, *updates: Any) -> None:
    """As a client sends them: no spelling of a location is changed on the way."""
    stream = catalog.load_table("ns.t").state.stream
    repository_of(catalog).commit(stream, lambda _: [ChangeMetadata(lambda _: list(updates))], Provenance())


def test_locations_elsewhere_are_refused_in_every_spelling(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """Given to a new table, to one that is there, by each property that has a path, to views, in dry runs too."""
    ruled.create_table("ns.t", SCHEMA)
    ruled.create_view("ns.v", "SELECT 1 AS one")
    position, before = ruled.position, outside_of(tmp_path)
    for text, location in places(ruled, FORBIDDEN).items():
        updates: list[SetLocation | SetProperties] = [SetLocation(location)]
        if "://" in text or ":" not in text:
            # Of a property what is no location is a path below the table's.
            updates += [SetProperties({p: location}) for p in ("write.data.path", "write.metadata.path")]
        for update in updates:
            with pytest.raises(ForbiddenLocationError):
                commit_updates(ruled, update)
                pytest.fail(f"{update} was accepted")
    for relative in ("../../../outside/x", "%2e%2e/%2e%2e/%2e%2e/x", "a/../../../.."):
        with pytest.raises(ForbiddenLocationError):
            commit_updates(ruled, SetProperties({"write.object-storage.path": relative}))
    for text, location in places_again(ruled, ["{t}/outside/x", "{w}/../outside/x", "{w}/link/x"]).items():
        for make in (
            lambda location=location: ruled.create_table("ns.new", SCHEMA, location=location),
            lambda location=location: ruled.create_table("ns.new", SCHEMA, location=location, dry_run=True),
            lambda location=location: ruled.create_view("ns.new", "SELECT 1 AS one", location=location),
            lambda location=location: ruled.replace_table("ns.t", SCHEMA, location=location),
            lambda location=location: ruled.load_view("ns.v").set_location(location),
            lambda location=location: ruled.load_view("ns.v").set_properties({"write.metadata.path": location}),
            lambda location=location: ruled.register_table("ns.new", location),
            lambda location=location: ruled.register_view("ns.new", f"{location}/v1.metadata.json"),
        ):
            with pytest.raises(ForbiddenLocationError):
                make()
                pytest.fail(f"{text} was accepted")
    assert ruled.position == position and outside_of(tmp_path) == before
    assert ruled.verify().problems == ()


def test_a_forbidden_place_is_not_even_asked_for(ruled: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may not write there may not find out either whether there is something."""
    asked: list[str] = []
    of_folder = Storage.list

    def listed(self: Storage, folder: str) -> list[str]:
        asked.extend([folder] if folder.startswith("s3:") else [])
        return [] if folder.startswith("s3:") else of_folder(self, folder)

    monkeypatch.setattr(Storage, "list", listed)
    for make in (
        lambda: ruled.create_table("ns.new", SCHEMA, location="s3://other/x"),
        lambda: ruled.create_view("ns.new", "SELECT 1 AS one", location="s3://other/x"),
        lambda: ruled.create_view("ns.new", "SELECT 1 AS one", properties={"write.metadata.path": "s3://other/x"}),
    ):
        with pytest.raises(ForbiddenLocationError):
            make()
    assert asked == []


def places_again(catalog: icecore.Catalog, texts: list[str]) -> dict[str, str]:
    for name in ("link", "inner"):
        (catalog.path / name).unlink()
    return places(catalog, texts)


def test_locations_inside_are_allowed_in_every_spelling(ruled: icecore.Catalog) -> None:
    for number, (text, location) in enumerate(places(ruled, ALLOWED).items()):
        table = ruled.create_table(("ns", f"t{number}"), SCHEMA, location=location)
        table.append(rows(number))
        assert ids_of(table) == [number], text
        ruled.create_table(("ns", "t"), SCHEMA, properties=MANUAL)
        commit_updates(ruled, SetLocation(f"{location}-moved"))
        ruled.drop_table("ns.t", purge=True)
    assert ruled.verify().problems == ()


@given(
    st.lists(
        st.sampled_from(["..", ".", "%2e%2e", "%2E.", "a", "wh", "link", "/", "?", "#", "%2f", "%", "25", "outside"]),
        max_size=7,
    ),
    st.sampled_from(["/wh/", "file:///wh/", "file:/wh/", "file:////wh/", "/outside/", "/wh", "FILE:///wh/", "/"]),
)
@example(["a", "/", "%2e%2e", "/", "..", "/", "outside"], "/wh/")
def test_no_spelling_leads_out(parts: list[str], begin: str) -> None:
    """Whatever is accepted is inside in each reading of it: as it is, decoded once or twice, and cut off."""
    from urllib.parse import unquote, urlsplit

    location = begin + "".join(parts)
    try:
        LocationRules(("file:///wh",)).check_inside(location, "location")
    except ForbiddenLocationError:
        return
    path = location.removeprefix("file:")
    readings = [path, unquote(path), unquote(unquote(path)), urlsplit(location).path, unquote(urlsplit(location).path)]
    for reading in readings:
        assert os.path.normpath("/" + reading.lstrip("/")).startswith("/wh/"), (location, reading)


def test_no_table_is_around_the_warehouse(tmp_path: Path) -> None:
    """Where a folder around it is allowed too."""
    home = tmp_path / "lakes" / "wh"
    with icecore.open(home, location_roots=[str(tmp_path)]) as catalog:
        catalog.create_namespace("ns")
        for place in (
            home,
            home.parent,
            f"{home}/",
            f"{home.parent}/x/..",
            f"file://{tmp_path}/%6cakes",
            home / ".icecore",
        ):
            with pytest.raises(ForbiddenLocationError, match="keeps for itself"):
                catalog.create_table("ns.t", SCHEMA, location=str(place))
        catalog.create_table("ns.t", SCHEMA, location=str(home.parent / "beside"))


@pytest.mark.parametrize("root", ["a b", "100%", "%41", "a#b", "q?x", "é"], ids=ascii)
def test_a_warehouse_may_be_in_a_folder_of_any_name(tmp_path: Path, root: str) -> None:
    with icecore.open(tmp_path / root / "wh", location_roots=(), unique_locations=True) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", SCHEMA)
        table.append(rows(1))
        assert ids_of(catalog.load_table("ns.t")) == [1]
        with pytest.raises(ForbiddenLocationError):
            catalog.create_table("ns.u", SCHEMA, location=str(tmp_path / root / "other"))


def test_a_warehouse_behind_a_link_is_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    with icecore.open(tmp_path / "alias" / "wh", location_roots=(), unique_locations=True) as catalog:
        catalog.create_namespace("ns")
        catalog.create_table("ns.t", SCHEMA).append(rows(1))
        assert ids_of(catalog.load_table("ns.t")) == [1]


def test_two_tables_are_never_in_one_place(ruled: icecore.Catalog) -> None:
    """Nor one inside of another, in any spelling, as long as the other is there."""
    at = ruled.path / "place"
    ruled.create_table("ns.one", SCHEMA, location=str(at / "t")).append(rows(1))
    spelled = ["t", "t/", "t/inner", "t/inner/deep", "", "t/../t", "%74", "t/.", "x/%2e%2e/t"]
    texts = [f"{at}/{text}" for text in spelled] + [f"file:{at}/t", f"file://{at}/t", f"file:///{at}/t/data"]

    def none_is_accepted() -> None:
        for text in texts:
            for make in (
                lambda text=text: ruled.create_table("ns.two", SCHEMA, location=text),
                lambda text=text: ruled.create_view("ns.two", "SELECT 1 AS one", location=text),
                lambda text=text: commit_updates(ruled, SetLocation(text)),
                lambda text=text: commit_updates(ruled, SetProperties({"write.data.path": text})),
            ):
                with pytest.raises(ForbiddenLocationError, match="where files of"):
                    make()
                    pytest.fail(f"{text} was accepted")

    ruled.create_table("ns.t", SCHEMA, properties=MANUAL)
    none_is_accepted()
    ruled.drop_table("ns.one")
    ruled.create_table("ns.two", SCHEMA, location=f"{at}/t/inner")
    with pytest.raises(ForbiddenLocationError, match=r"ns\.two"):
        ruled.undrop_table("ns.one")
    ruled.drop_table("ns.two", purge=True)
    assert ids_of(ruled.undrop_table("ns.one")) == [1]
    ruled.rebuild()
    none_is_accepted()
    ruled.create_table("ns.beside", SCHEMA, location=f"{at}/t2")
    ruled.create_table("ns.other_case", SCHEMA, location=f"{at}/T")
    ruled.drop_table("ns.one", purge=True)
    ruled.create_table("ns.two", SCHEMA, location=f"{at}/t")
    assert ruled.verify().problems == ()


def test_a_table_keeps_its_own_place(ruled: icecore.Catalog) -> None:
    """Its data may be inside of it, it may be replaced and registered again, and its commits are as ever."""
    table = ruled.create_table("ns.t", SCHEMA, properties={"write.data.path": str(ruled.path / "ns" / "t" / "rows")})
    table.append(rows(1))
    table.set_properties({"write.metadata.path": f"{table.location()}/logs"})
    table = ruled.replace_table("ns.t", SCHEMA, location=table.location())
    table.append(rows(2))
    file = ruled.load_table("ns.t").metadata_location
    assert file is not None
    ruled.drop_table("ns.t")
    again = ruled.register_table("ns.again", file)
    assert ids_of(again) == [2] and again.location() == table.location()
    with pytest.raises(ForbiddenLocationError, match=r"ns\.again"):
        ruled.undrop_table("ns.t")
    with pytest.raises(ForbiddenLocationError, match=r"ns\.again"):
        ruled.register_table("ns.third", file)


def test_default_locations_stay_apart(ruled: icecore.Catalog) -> None:
    """Of a table in a namespace that has another table's name, and the reverse."""
    ruled.create_table("ns.t", SCHEMA)
    ruled.create_namespace("ns.t")
    inner = ruled.create_table("ns.t.x", SCHEMA)
    inner.append(rows(1))
    assert local(inner.location()).parent == ruled.path and ids_of(ruled.load_table("ns.t.x")) == [1]
    ruled.create_namespace("a.b")
    ruled.create_table("a.b.t", SCHEMA)
    assert ruled.create_table(("a", "b"), SCHEMA).location().startswith(f"file://{ruled.path}/a/b-")


def test_what_was_elsewhere_before_the_rules_may_stay(tmp_path: Path) -> None:
    """It is committed to as before, but goes to no other place outside."""
    with icecore.open(tmp_path / "wh") as free:
        free.create_namespace("ns")
        free.create_table("ns.t", SCHEMA, location=str(tmp_path / "out")).append(rows(1))
        free.create_table("ns.twin", SCHEMA, location=str(tmp_path / "out" / "twin"))
    with icecore.open(tmp_path / "wh", location_roots=(), unique_locations=True) as ruled:
        table = ruled.load_table("ns.t")
        table.append(rows(2))
        assert ids_of(ruled.load_table("ns.t")) == [1, 2]
        with pytest.raises(ForbiddenLocationError):
            commit_updates(ruled, SetLocation(str(tmp_path / "out2")))
        with ruled.transaction() as transaction:
            transaction.table("ns.t").append(rows(3))
        with pytest.raises(ForbiddenLocationError), ruled.transaction() as transaction:
            transaction.table("ns.twin").append(rows(1))
            transaction.create_table("ns.new", SCHEMA, location=str(tmp_path / "out3"))
        assert ids_of(ruled.load_table("ns.t")) == [1, 2, 3] and ids_of(ruled.load_table("ns.twin")) == []


def test_without_rules_anything_goes(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """As it is for the library unless somebody asks."""
    for name in ("one", "two"):
        catalog.create_table(("ns", name), SCHEMA, location=str(tmp_path / "anywhere"), properties=MANUAL)


def with_list_at(path: Path) -> Callable[[Updates], Updates]:
    """Has a client's commit name a list in another folder."""

    def change(updates: Updates) -> Updates:
        snapshot = next(u["snapshot"] for u in updates if u["action"] == "add-snapshot")
        path.write_bytes(local(snapshot["manifest-list"]).read_bytes())
        snapshot["manifest-list"] = f"file://{path}"
        return updates

    return change


def test_files_of_clients_are_inside(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """Their lists and statistics: else the engine would read and delete what is elsewhere."""
    ruled.create_table("ns.t", SCHEMA)
    position, client = ruled.position, ClientCatalog(ruled)
    client.change = with_list_at(tmp_path / "outside" / "list.avro")
    with pytest.raises(ForbiddenLocationError):
        client.load_table("ns.t").append(rows(1))
    with pytest.raises(ForbiddenLocationError):
        commit_updates(ruled, SetStatistics(StatisticsFile(1, "/etc/passwd", 1, 1, ())))
    assert ruled.position == position
    client.change = with_list_at(tmp_path / "allowed" / "list.avro")
    client.load_table("ns.t").append(rows(1))
    assert ruled.position == position + 1 and ids_of(ruled.load_table("ns.t")) == [1]


def test_what_clients_name_elsewhere_is_never_deleted(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """Nor are the warehouse's own files: neither by expiry nor by purge."""
    elsewhere = [tmp_path / "outside" / "f.parquet", ruled.path / ".icecore" / "f.parquet", ruled.path / "icecore.db2"]
    inside = tmp_path / "allowed" / "f.parquet"
    for path in (*elsewhere, inside):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows(1), path)
    table = ruled.create_table("ns.t", SCHEMA)
    table.add_files([str(p) for p in (*elsewhere, inside)])
    table.delete("true")
    table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()
    assert not inside.exists() and all(p.exists() for p in elsewhere)
    table.add_files([str(p) for p in elsewhere])
    ruled.drop_table("ns.t")
    assert ruled.purge_table("ns.t").deleted_files and all(p.exists() for p in elsewhere)


def test_a_root_that_is_no_location_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        icecore.open(tmp_path / "wh", location_roots=[" "])


def test_registered_files_are_inside(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """Of a table that is elsewhere neither the file nor what it names is taken, nor a link to it, nor a mapping."""
    with icecore.open(tmp_path / "wh2") as other:
        other.create_namespace("ns")
        table = other.create_table("ns.t", SCHEMA)
        table.append(rows(1))
        file = other.load_table("ns.t").metadata_location
        assert file is not None
    copied = ruled.path / "copied.metadata.json"
    copied.write_bytes(local(file).read_bytes())
    linked = ruled.path / "linked.metadata.json"
    linked.symlink_to(local(file))
    for wanted in (file, str(local(table.location())), str(linked), str(copied)):
        with pytest.raises(ForbiddenLocationError):
            ruled.register_table("ns.t", wanted)
    mapping = {f"file://{ruled.path}": f"file://{tmp_path}/wh2"}
    with pytest.raises(ForbiddenLocationError):
        ruled.register_table("ns.t", file.replace("/wh2/", "/wh/"), location_mapping=mapping)
    assert ruled.list_tables("ns") == []


def _listed_elsewhere(data: bytes, place: Path) -> bytes:
    """A manifest list whose manifests are copied to another folder, as it names them then."""
    place.mkdir(exist_ok=True)
    found = [
        evolve(m, manifest_path=f"file://{shutil.copy(local(m.manifest_path), place)}")
        for m in read_manifest_list(data, "list")
    ]
    return write_manifest_list(
        found, format_version=2, snapshot_id=1, parent_snapshot_id=None, sequence_number=9, sync_marker=b"m" * 16
    )


@pytest.mark.filterwarnings("ignore::icecore.engine.foreign.adopter.ForeignCommitWarning")
@pytest.mark.parametrize("where", ["file", "log", "location", "property", "list", "manifest", "new", "view"])
def test_commits_of_others_name_nothing_elsewhere(
    ruled: icecore.Catalog, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of `iceberg_tables` are a problem then: no file elsewhere is read, and the log's own state goes on."""
    outside = tmp_path / "outside"
    ruled.create_table("ns.t", SCHEMA).append(rows(1))
    ruled.create_view("ns.v", "SELECT 1 AS one")
    peer = pyiceberg_catalog(ruled.path)
    peer.load_table("ns.t").append(rows(2))
    theirs = local(peer.load_table("ns.t").metadata_location)
    metadata = json.loads(theirs.read_bytes())
    snapshot, log, place = metadata["snapshots"][-1], metadata["metadata-log"], theirs.with_name("9-x.metadata.json")
    match where:
        case "file" | "new" | "view":
            place = outside / place.name
        case "log":
            log.append({**log[-1], "metadata-file": f"file://{outside}/between.metadata.json"})
        case "location":
            metadata["location"] = f"file://{outside}/t"
        case "property":
            metadata["properties"]["write.metadata.path"] = f"file://{outside}/m"
        case "list":
            snapshot["manifest-list"] = f"file://{shutil.copy(local(snapshot['manifest-list']), outside)}"
        case _:
            listed = local(snapshot["manifest-list"])
            listed.write_bytes(_listed_elsewhere(listed.read_bytes(), outside))
    (outside / "between.metadata.json").write_bytes(theirs.read_bytes())
    place.write_text(json.dumps(metadata))
    name = {"new": "u", "view": "v"}.get(where, "t")
    with peer.engine.begin() as rows_of_all:
        if where == "new":
            rows_of_all.exec_driver_sql(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type) "
                "SELECT catalog_name, table_namespace, 'u', 'TABLE' FROM iceberg_tables LIMIT 1"
            )
        rows_of_all.exec_driver_sql(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (f"file://{place}", name)
        )
    peer.close()
    if name != "t":
        assert ids_of(ruled.load_table("ns.t")) == [1, 2], "what is no problem is taken in"
    position, read = ruled.position, list[str]()
    original = Storage.read_bytes

    def noted(self: Storage, location: str) -> bytes:
        data = original(self, location)
        read.append(location)
        return data

    monkeypatch.setattr(Storage, "read_bytes", noted)
    problems = [p.text for p in repository_of(ruled).foreign.adopt_all()]
    assert len(problems) == 1 and problems[0].startswith(f"ns.{name}: what another engine committed is not taken in")
    assert ruled.position == position
    if name == "t":
        assert ids_of(ruled.load_table("ns.t")) == [1]
        with pytest.raises(ForeignCommitError, match="not inside of"):
            ruled.load_table("ns.t").append(rows(3))
        with pytest.raises(ForeignCommitError, match="not inside of"):
            ruled.resolve("ns.t", "foreign")
        table = ruled.resolve("ns.t", "log")
        table.append(rows(3))
        assert ids_of(ruled.load_table("ns.t")) == peer_ids(ruled.path) == [1, 3]
        assert ruled.verify().problems == ()
    assert not [at for at in read if str(outside) in at]
