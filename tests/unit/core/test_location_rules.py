"""Locations under rules are inside of the warehouse or the folders that are allowed, however they are spelled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from core_tables import SCHEMA, ids_of, rows
from hypothesis import example, given
from hypothesis import strategies as st
from ruled_locations import MANUAL, commit_updates, ruled

import icecore
from icecore.engine.errors import ForbiddenLocationError, TableAlreadyExistsError, ValidationError
from icecore.engine.spec.updates.metadata_update import SetLocation, SetProperties
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.location_rules import LocationRules

__all__ = ["ruled"]


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
    "{w}/icecore.reports.db",
    "{w}/icecore.reports.db-wal/x",
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


def test_the_place_of_a_table_that_the_same_commit_drops_is_free(ruled: icecore.Catalog) -> None:
    """As that of one which is overwritten by an older metadata file of its own."""
    table = ruled.create_table("ns.t", SCHEMA)
    older = table.metadata_location
    table.append(rows(1))
    assert older is not None
    with pytest.raises(TableAlreadyExistsError):
        ruled.register_table("ns.t", older)
    again = ruled.register_table("ns.t", older, overwrite=True)
    assert isinstance(again, icecore.Table) and ids_of(again) == []
    with ruled.transaction() as both:
        both.drop_table("ns.t")
        both.create_table("ns.u", SCHEMA, location=table.location())
    with pytest.raises(ForbiddenLocationError), ruled.transaction() as both:
        both.create_table("ns.v", SCHEMA, location=table.location())
        both.drop_table("ns.u")


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


def test_a_root_that_is_no_location_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        icecore.open(tmp_path / "wh", location_roots=[" "])


def test_a_text_alone_is_one_root(tmp_path: Path) -> None:
    """Each of its letters would be one else, the slash too, in which everything lies."""
    rules = LocationRules.of(tmp_path / "wh", str(tmp_path / "shared"), unique=False)
    rules.check_inside(f"file://{tmp_path}/shared/t", "location")
    with pytest.raises(ForbiddenLocationError):
        rules.check_inside(f"file://{tmp_path}/elsewhere/t", "location")
