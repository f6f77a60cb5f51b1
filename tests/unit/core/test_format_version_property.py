"""The property `format-version` is the format version, as in Java; what else follows from metadata is no property."""

from __future__ import annotations

from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, make_table, rows

import icecore
from icecore.engine.errors import IcecoreError, ValidationError


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_is_made_in_that_version(catalog: icecore.Catalog, version: int) -> None:
    """By the catalog, in a transaction, and where a table is replaced."""
    properties = {"format-version": str(version), "k": "v"}
    table = make_table(catalog, properties=properties)
    assert (table.format_version, dict(table.properties)) == (version, {"k": "v"})
    with catalog.transaction() as change:
        change.create_table("ns.other", SCHEMA, properties=properties)
    assert catalog.load_table("ns.other").format_version == version
    old = make_table(catalog, "old", format_version=1)
    assert catalog.replace_table("ns.old", SCHEMA, properties=properties).format_version == version
    assert dict(old.refresh().properties) == {"k": "v"}


def test_setting_it_upgrades(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, format_version=1)
    table.append(rows(1))
    table.set_properties({"format-version": "3", "k": "v"})
    assert (table.format_version, dict(table.properties)) == (3, {"k": "v"})
    with pytest.raises(ValidationError, match="can't downgrade"):
        table.set_properties({"format-version": "2"})
    assert ids_of(table) == [1]
    assert catalog.verify().ok


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({"format-version": "4"}, {}),
        ({"format-version": "two"}, {}),
        ({"format-version": "0"}, {}),
        ({"format-version": "9" * 5000}, {}),
        ({"format-version": ""}, {}),
        ({"format-version": "1"}, {"format_version": 3}),
        ({"uuid": "x"}, {}),
        ({"current-snapshot-id": "5"}, {}),
    ],
)
def test_what_can_not_be_is_refused(
    catalog: icecore.Catalog, properties: dict[str, str], options: dict[str, Any]
) -> None:
    with pytest.raises(IcecoreError, match=r"format.version|follow from"):
        make_table(catalog, properties=properties, **options)
    assert not catalog.table_exists("ns.t")
