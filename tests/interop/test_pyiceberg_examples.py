"""Programs written for PyIceberg, run with its catalog and with ours: each call that its guide shows, its own values.

What differs is in docs/pyiceberg.md; here each program has to give equal answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, StaticTable, Table, Transaction
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots
from pyiceberg.table.update.sorting import UpdateSortOrder
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.types import NestedField, StringType
from pyiceberg.view.metadata import ViewVersion
from pyiceberg_programs import CITIES, PROGRAMS, rows, shape

import icecore
from icecore.engine.errors import ReadOnlyError, ValidationError
from icecore.engine.evolution.manage_snapshots import ManageSnapshots as OurSnapshots
from icecore.engine.evolution.update_schema import UpdateSchema as OurSchema
from icecore.engine.evolution.update_sort_order import UpdateSortOrder as OurSortOrder
from icecore.engine.evolution.update_spec import UpdateSpec as OurSpec
from icecore.engine.maintenance.maintenance import ExpireSnapshots as OurExpiry
from icecore.engine.scan.data_scan import DataScan as OurScan
from icecore.engine.table.transaction import Transaction as OurTransaction


@pytest.fixture
def catalogs(tmp_path: Path) -> list[Any]:
    """PyIceberg's catalog and ours, each with the namespace `docs`."""
    theirs = SqlCatalog("theirs", uri=f"sqlite:///{tmp_path}/theirs.db", warehouse=f"file://{tmp_path}/theirs")
    ours = icecore.open(tmp_path / "ours")
    for catalog in (theirs, ours):
        catalog.create_namespace("docs")
    return [theirs, ours]


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.__name__ for p in PROGRAMS])
def test_a_program_of_pyiceberg_gives_the_same_answers(program: Callable[[Any], Any], catalogs: list[Any]) -> None:
    theirs, ours = map(program, catalogs)
    assert ours == theirs


def test_every_name_that_is_not_here_is_in_the_list_of_what_differs() -> None:
    """Of the classes that programs hold, as the PyIceberg that is installed has them."""
    told = (Path(__file__).parents[2] / "docs" / "pyiceberg.md").read_text()
    same = (
        (Catalog, icecore.Catalog), (Table, icecore.Table), (DataScan, OurScan), (Transaction, OurTransaction),
        (UpdateSchema, OurSchema), (UpdateSpec, OurSpec), (UpdateSortOrder, OurSortOrder),
        (ManageSnapshots, OurSnapshots), (ExpireSnapshots, OurExpiry),
    )  # fmt: skip
    for theirs, ours in same:
        names = {name for name in {*dir(theirs), *theirs.__annotations__} if not name.startswith("_")}
        missing = {name for name in names if not hasattr(ours, name)}
        assert {name for name in missing if not re.search(rf"\b{name}\b", told)} == set(), theirs


def test_a_static_table_is_read_as_by_pyiceberg(catalogs: list[Any], tmp_path: Path) -> None:
    """Whoever wrote the metadata file; nothing is written beside it, and what would change the table is refused."""
    for catalog in catalogs:
        table = catalog.create_table("docs.cities", schema=CITIES.schema)
        table.append(CITIES)
        table.delete("city = 'Drachten'")
        there = sorted(tmp_path.rglob("*"))
        theirs, ours = (kind.from_metadata(table.metadata_location) for kind in (StaticTable, icecore.StaticTable))
        table.append(CITIES)
        assert rows(ours.refresh()) == rows(theirs) and shape(ours) == shape(theirs)
        paths = [t.inspect.files()["file_path"].to_pylist() for t in (ours, theirs)]
        assert paths[0] == paths[1]
        with pytest.raises(ReadOnlyError, match=r"static table.*register_table"):
            ours.append(CITIES)
        assert set(there) <= set(tmp_path.rglob("*"))
        assert rows(icecore.StaticTable.from_metadata(Path(table.location().removeprefix("file://")))) == rows(table)


def test_a_view_is_created_as_by_pyiceberg(catalogs: list[Any]) -> None:
    """By a schema and a version of it, whose dialects and names are taken."""
    ours = catalogs[1]
    ours.create_table("docs.cities", schema=CITIES.schema).append(CITIES)
    said = [{"type": "sql", "sql": "SELECT upper(city) AS name FROM cities", "dialect": "duckdb"}]
    version = ViewVersion(schema_id=0, representations=said, default_namespace=("docs",), summary={"a": "b"})
    schema = Schema(NestedField(1, "name", StringType(), required=False))
    view = ours.create_view("docs.v", schema, version, None, {"owner": "ann"})
    assert (view.properties["owner"], view.current_version().summary["a"]) == ("ann", "b")
    assert view.to_arrow()["name"].to_pylist()[:2] == ["AMSTERDAM", "SAN FRANCISCO"]
    with pytest.raises(ValidationError, match="needs a view_version"):
        ours.create_view("docs.w", schema)
    with pytest.raises(ValidationError, match="dialect is said by it"):
        ours.create_view("docs.w", schema, version, dialect="trino")
