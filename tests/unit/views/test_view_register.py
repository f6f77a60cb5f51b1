"""Views that are adopted by their metadata file, and checkpoints of views."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from core_tables import local, make_table, rows, store_of

import icecore
from icecore.engine.errors import (
    CorruptFileError,
    MissingFileError,
    NoSuchNamespaceError,
    ReadOnlyError,
    TableAlreadyExistsError,
    UnsupportedFormatVersionError,
)
from icecore.engine.events.event import Event
from icecore.engine.metadata import view_fold
from icecore.engine.metadata.view_fold import ViewState


@pytest.fixture
def foreign(tmp_path: Path) -> icecore.View:
    """A view of another warehouse, with two versions."""
    with icecore.open(tmp_path / "foreign") as other:
        other.create_namespace("ns")
        make_table(other)
        view = other.create_view("ns.v", "SELECT id FROM t", comment="theirs")
        return view.replace("SELECT name FROM t")


def test_a_view_is_adopted_and_goes_on(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], foreign: icecore.View
) -> None:
    make_table(catalog).append(rows(1))
    data = local(foreign.metadata_location).read_bytes()
    view = catalog.register_view("ns.mine", foreign.metadata_location, message="adopted", author="ann")
    assert view.metadata == foreign.metadata and view.metadata_location == foreign.metadata_location
    assert view.to_arrow()["name"].to_pylist() == ["n1"]
    assert catalog.sql("SELECT metadata_location FROM views").to_pylist() == [
        {"metadata_location": foreign.metadata_location}
    ]
    assert catalog.log("ns.mine").to_pylist()[0]["kind"] == "view.registered"
    assert open_again().load_view("ns.mine").metadata == foreign.metadata
    view.set_properties({"k": "v"})
    assert local(view.metadata_location).name.startswith("00002-")
    assert local(foreign.metadata_location).read_bytes() == data
    again = catalog.register_view("ns.again", foreign.metadata_location)
    assert again.state.stream != view.state.stream and again.properties == {"comment": "theirs"}
    catalog.rebuild()
    found = catalog.verify()
    assert found.ok, found
    catalog.revert(again.state.position)
    assert not catalog.view_exists("ns.again")
    assert catalog.at(view.state.position - 1).load_view("ns.mine").metadata == foreign.metadata
    shared = store_of(catalog).row(
        "log/read_models.sql", "get_iceberg_table", catalog="icecore", namespace="ns", name="mine"
    )
    assert shared is not None and shared["metadata_location"] == view.metadata_location


def test_what_is_no_view_is_refused(catalog: icecore.Catalog, foreign: icecore.View, tmp_path: Path) -> None:
    table = make_table(catalog)
    bad = tmp_path / "bad.metadata.json"
    bad.write_bytes(b"{}")
    position = catalog.position
    for name, location, error in (
        ("ns.t", foreign.metadata_location, TableAlreadyExistsError),
        ("no.v", foreign.metadata_location, NoSuchNamespaceError),
        ("ns.v", str(bad), CorruptFileError),
        ("ns.v", str(tmp_path / "none.json"), MissingFileError),
        ("ns.v", table.metadata_location or "", UnsupportedFormatVersionError),
    ):
        with pytest.raises(error):
            catalog.register_view(name, location)
    assert catalog.position == position
    with icecore.open(catalog.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.register_view("ns.v", foreign.metadata_location)


def test_a_view_of_many_versions_opens_from_a_checkpoint(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits note checkpoints by themselves, `checkpoint` on demand; the past is read from them, too."""
    make_table(catalog)
    view = catalog.create_view("ns.v", "SELECT id FROM t")
    positions = []
    for number in range(150):
        view.set_properties({"k": str(number)})
        positions.append(view.state.position)
    noted = [r["stream_version"] for r in store_of(catalog).rows("log/checkpoints.sql", "all_checkpoints")]
    assert noted == [64, 128]
    assert catalog.checkpoint() == 2 and catalog.checkpoint() == 0
    assert catalog.verify().ok
    reader = open_again()
    folded: list[int] = []
    evolving = view_fold.evolve_view

    def noting(state: ViewState | None, event: Event) -> ViewState:
        folded.append(event.position)
        return evolving(state, event)

    monkeypatch.setattr(view_fold, "evolve_view", noting)
    assert reader.load_view("ns.v").state == view.state
    assert folded == []
    assert reader.at(positions[130]).load_view("ns.v").properties["k"] == "130"
    assert 0 < len(folded) < 10
    assert reader.at(positions[3]).load_view("ns.v").properties["k"] == "3"
    reader.load_view("ns.v").set_properties({"k": "last"})
    assert catalog.load_view("ns.v").properties["k"] == "last"
    catalog.rebuild()
    assert catalog.verify().ok


def test_a_wrong_checkpoint_of_a_view_is_found(catalog: icecore.Catalog) -> None:
    make_table(catalog)
    catalog.create_view("ns.v", "SELECT id FROM t")
    catalog.checkpoint()
    store = store_of(catalog)
    with store.write():
        found = store.connection().execute("SELECT state FROM checkpoint WHERE stream LIKE 'view:%'").fetchone()[0]
        changed = zlib.compress(zlib.decompress(found).replace(b'"duckdb"', b'"trino"'))
        store.connection().execute("UPDATE checkpoint SET state = ? WHERE stream LIKE 'view:%'", (changed,))
    assert any("differs from a replay" in p for p in catalog.verify().problems)
    with store.write():
        store.connection().execute("UPDATE checkpoint SET state = x'00' WHERE stream LIKE 'view:%'")
    assert any("can't be read" in p for p in catalog.verify().problems)
    catalog.rebuild()
    assert catalog.verify().ok
