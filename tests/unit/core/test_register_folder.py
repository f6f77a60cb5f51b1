"""Registering a folder: after the log is lost all tables and views come back, and what can't is told."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from attrs import asdict

import icecore
from icecore.engine.catalog.recovery.register_folder import RegisteredFolder
from icecore.engine.errors import LostLogWarning, StorageError, ValidationError
from icecore.engine.storage.file_io import Storage

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])


def names(done: RegisteredFolder) -> list[tuple[str, str]]:
    return [(found.name, found.kind) for found in done.registered]


def reasons(done: RegisteredFolder) -> dict[str, str]:
    return {Path(found.folder).name: found.reason for found in done.left}


def lost(warehouse: Path) -> icecore.Catalog:
    """The warehouse's files with an empty log."""
    for file in warehouse.glob("icecore.db*"):
        file.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LostLogWarning)
        return icecore.open(warehouse)


@pytest.fixture
def lake(warehouse: Path) -> Path:
    """Two tables of a row, one of them in a nested namespace with an odd name, and a view, all closed."""
    with icecore.open(warehouse) as catalog:
        for namespace in ("shop", "shop.north"):
            catalog.create_namespace(namespace)
        for number, name in enumerate([("shop", "orders"), ("shop", "north", "50% off/é.v1")]):
            catalog.create_table(name, SCHEMA).append([{"id": number, "note": "kept"}])
        catalog.create_view("shop.ids", "SELECT id FROM orders")
    return warehouse


def test_all_come_back_after_the_log_was_lost(lake: Path) -> None:
    """In one commit, under their names, with their rows."""
    with lost(lake) as catalog:
        before = catalog.position
        done = catalog.register_folder(str(lake), message="the log was lost")
        assert names(done) == [("shop.ids", "view"), ('shop.north."50% off/é.v1"', "table"), ("shop.orders", "table")]
        assert done.left == ()
        assert catalog.load_table("shop.orders").scan().to_arrow().to_pylist() == [{"id": 0, "note": "kept"}]
        assert catalog.load_table(("shop", "north", "50% off/é.v1")).scan().count() == 1
        assert catalog.load_view("shop.ids").to_arrow().to_pylist() == [{"id": 0}]
        log = catalog.log().to_pylist()[before:]
        assert {e["message"] for e in log} == {"the log was lost"}
        assert len({e["transaction_id"] for e in log}) == 1
        assert catalog.verify().ok


def test_what_the_log_knows_is_left(lake: Path) -> None:
    """So a second call does nothing, and one in a warehouse as it is gives back no table that was dropped."""
    with icecore.open(lake) as catalog:
        catalog.drop_table("shop.orders")
        catalog.rename_view("shop.ids", "shop.numbers")
        head = catalog.position
        done = catalog.register_folder(str(lake))
        assert names(done) == []
        assert catalog.position == head
        assert reasons(done)["orders"] == "it was dropped"
        assert reasons(done)["ids"] == "the catalog has it as shop.numbers"


def test_a_dry_run_stores_nothing(lake: Path) -> None:
    """It says what would be registered, and what the commit would be."""
    with lost(lake) as catalog:
        head = catalog.position
        done = catalog.register_folder(str(lake), dry_run=True)
        assert len(done.registered) == 3
        assert done.outcome is not None
        assert [part.identifier for part in done.outcome.parts if part.kind == "table.registered"]
        assert catalog.position == head
        assert not catalog.table_exists("shop.orders")


def test_what_cannot_be_is_left_and_the_rest_comes(lake: Path, tmp_path: Path) -> None:
    """A broken metadata file, a copy of a table, a name of two folders, and a table in no namespace."""
    shutil.copytree(lake / "shop" / "orders", lake / "shop" / "orders_copy")
    shutil.copytree(lake / "shop" / "orders", lake / "alone")
    broken = lake / "shop" / "broken" / "metadata"
    broken.mkdir(parents=True)
    (broken / "v1.metadata.json").write_text('{"format-version": 2')
    with icecore.open(tmp_path / "other") as catalog:
        done = catalog.register_folder(str(lake))
        assert [name for name, _ in names(done)] == ["shop.ids", 'shop.north."50% off/é.v1"', "shop.orders"]
        assert "not valid JSON" in reasons(done)["broken"]
        assert "it is a copy of shop.orders" in reasons(done)["orders_copy"]
        assert "no namespace" in reasons(done)["alone"]
        again = catalog.register_folder(str(lake), "second")
        assert names(again) == []
        assert "the catalog has it as shop.orders" in reasons(again)["alone"]


def test_names_of_hive_and_a_namespace_before_them(lake: Path, tmp_path: Path) -> None:
    """`shop.db/orders` is `shop.orders`; with a namespace all are below it."""
    (lake / "shop").rename(lake / "shop.db")
    with icecore.open(tmp_path / "other") as catalog:
        done = catalog.register_folder(str(lake), "old")
        assert ("old.shop.orders", "table") in names(done)
        assert catalog.load_table("old.shop.orders").scan().count() == 1


def test_a_nested_namespace_of_pyiceberg_is_one_folder(lake: Path, tmp_path: Path) -> None:
    (lake / "shop").rename(lake / "shop.of.ann")
    with icecore.open(tmp_path / "other") as catalog:
        assert ("shop.of.ann.orders", "table") in names(catalog.register_folder(str(lake)))
        assert catalog.load_table(("shop", "of", "ann", "orders")).scan().count() == 1


def test_a_name_that_is_taken_is_left(lake: Path) -> None:
    """The table that has it stays."""
    with lost(lake) as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", SCHEMA)
        done = catalog.register_folder(str(lake))
        assert "Table already exists: shop.orders" in reasons(done)["orders"]
        assert catalog.load_table("shop.orders").scan().count() == 0
        assert len(done.registered) == 2


@pytest.mark.parametrize("folder", ["s3://bucket/lake", "not/there"])
def test_only_folders_of_this_machine(catalog: icecore.Catalog, folder: str) -> None:
    """Another one is refused."""
    with pytest.raises(ValidationError, match="expected a folder of this machine"):
        catalog.register_folder(folder)


def test_a_folder_with_nothing_in_it(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Registers nothing."""
    (tmp_path / "empty").mkdir()
    assert asdict(catalog.register_folder(str(tmp_path / "empty"))) == {
        "registered": (),
        "left": (),
        "outcome": None,
    }


@pytest.fixture
def far(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of a store that can't be reached, while another process commits."""
    asked: list[str] = []
    of_folder = Storage.list

    def listed(self: Storage, folder: str) -> list[str]:
        if not folder.startswith("s3://far/"):
            return of_folder(self, folder)
        asked.append(folder)
        with icecore.open(catalog.path) as other:
            other.create_namespace(f"meanwhile{len(asked)}")
        raise StorageError(f"can't list {folder}")

    monkeypatch.setattr(Storage, "list", listed)
    return asked


def test_a_store_that_is_slow_holds_up_no_other_commit(catalog: icecore.Catalog, far: list[str]) -> None:
    """It is asked before the log is locked."""
    with pytest.raises(StorageError, match="can't list s3://far/t"):
        catalog.create_table("ns.far", SCHEMA, location="s3://far/t")
    assert len(far) == 1
    assert catalog.namespace_exists("meanwhile1")
    assert not catalog.table_exists("ns.far")
    with pytest.raises(StorageError, match="can't list s3://far/v"):
        catalog.create_view("ns.far", "SELECT 1 AS one", location="s3://far/v")
    assert len(far) == 2
    assert catalog.namespace_exists("meanwhile2")
    assert not catalog.view_exists("ns.far")


def test_a_store_that_can_not_be_reached_is_asked_once(
    catalog: icecore.Catalog, far: list[str], tmp_path: Path
) -> None:
    """Its tables are left; those that lie here come."""
    with icecore.open(tmp_path / "lake") as other:
        other.create_namespace("shop")
        for name in ("a", "b", "c"):
            other.create_table(f"shop.{name}", SCHEMA)
    for name in ("a", "b"):
        [file] = (tmp_path / "lake" / "shop" / name / "metadata").glob("*.metadata.json")
        found = json.loads(file.read_text().replace(f"file://{tmp_path}/lake/shop", "s3://far"))
        # Else it would be found that the tables lie here.
        found["properties"]["write.metadata.path"] = f"s3://far/{name}/files"
        file.write_text(json.dumps(found))
    done = catalog.register_folder(str(tmp_path / "lake"))
    assert names(done) == [("shop.c", "table")]
    assert set(reasons(done)) == {"a", "b"}
    assert "s3://far refused another table: can't list s3://far/a" in reasons(done)["b"]
    assert far == ["s3://far/a/files"]
