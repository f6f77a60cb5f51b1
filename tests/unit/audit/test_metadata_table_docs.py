"""docs/metadata-tables.md tells the columns that metadata tables have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from core_tables import SCHEMA

import icecore
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS, HISTORIES
from icecore.projections.history.logged_tables import OF_EVENT

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metadata-tables.md"
LIKE = {
    "all_manifests": "manifests",
    "data_files": "files",
    "delete_files": "files",
    "all_files": "files",
    "all_data_files": "files",
    "all_delete_files": "files",
    "all_entries": "entries",
}


def told() -> dict[str, dict[str, str]]:
    """The types of columns by table, as the page has them."""
    parts = re.split(r"^## `(\w+)`$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        of_table = text.partition("\n# ")[0]
        found[name] = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", of_table, flags=re.MULTILINE))
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> icecore.Table:
    catalog = icecore.open(tmp_path_factory.mktemp("lake"))
    catalog.create_namespace("ns")
    return catalog.create_table("ns.t", SCHEMA, partition_spec=["name"])


def test_each_table_is_told_with_its_columns(table: icecore.Table) -> None:
    """Of structs only that they are: their fields are those of the table."""
    page, names = told(), [n for n in dir(table.inspect) if not n.startswith("_")]
    of_log = {"events", *HISTORIES}
    assert page.keys() | LIKE.keys() == ({*names, *HISTORIES, "log_health"} - {"events"})
    for name in set(names) - of_log:
        columns = page.get(LIKE.get(name, name), {}) | page.get(name, {})
        schema = getattr(table.inspect, name)().schema
        found = {f.name: "struct" if str(f.type).startswith("struct") else str(f.type) for f in schema}
        assert list(found.items()) == list(columns.items()), name


@pytest.mark.parametrize("name", [*HISTORIES, "log_health"])
def test_each_table_of_the_log_is_told_with_its_columns(name: str) -> None:
    """What all begin with is told once."""
    begin = [f.name for f in OF_EVENT]
    schema = AUDIT_SCHEMAS[name]
    assert name == "log_health" or schema.names[: len(begin)] == begin
    assert told()[name] == {f.name: str(f.type) for f in schema if f.name not in begin}
