"""Values of the table properties that this engine knows: refused when they are set, read as they are where adopted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from core_tables import adopted_copy

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import ValidationError
from icecore.engine.properties.property_values import Choice, Folder, Whole
from icecore.engine.properties.table_properties import (
    GC_ENABLED,
    MAX_REF_AGE_MS,
    NUM_RETRIES,
    PROPERTIES,
    SPLIT_SIZE,
    KnownProperty,
    known_property,
)

SCHEMA = pa.schema([("id", pa.int64())])


def name_of(known: KnownProperty[Any]) -> str:
    return f"{known.name}id" if known.name.endswith(".") else known.name


@pytest.mark.parametrize("known", PROPERTIES, ids=name_of)
def test_no_known_property_takes_a_value_that_is_none_of_its_own(
    catalog: icecore.Catalog, known: KnownProperty[Any]
) -> None:
    """By all ways to set one; the error names the property, what it may be and what was found."""
    name = name_of(known)
    wrong = " " if isinstance(known.values, Folder) else "wat"
    properties = {name: wrong}
    table = catalog.create_table("ns.t", SCHEMA)
    position = catalog.position
    with pytest.raises(ValidationError, match=rf"the property {name} must be .*found '{wrong}'") as caught:
        catalog.create_table("ns.other", SCHEMA, properties=properties)
    if isinstance(known.values, Choice):
        assert all(v in str(caught.value) for v in known.values.values)
    with pytest.raises(ValidationError, match=name):
        table.set_properties(properties)
    with pytest.raises(ValidationError, match=name), table.transaction() as transaction:
        transaction.set_properties(properties)
    with pytest.raises(ValidationError, match=name), catalog.transaction() as joint:
        joint.table("ns.t").set_properties(properties)
    with pytest.raises(ValidationError, match=name):
        catalog.replace_table("ns.t", SCHEMA, properties=properties)
    assert catalog.position == position


def test_what_counts_without_a_property_is_one_of_its_values(catalog: icecore.Catalog) -> None:
    """All of them at once: they are what a table has that says nothing."""
    defaults = {name_of(known): known.default for known in PROPERTIES if known.default is not None}
    table = catalog.create_table("ns.t", SCHEMA, properties=defaults)
    assert table.properties.items() >= defaults.items()
    table.append([{"id": 1}])
    assert table.scan().count() == 1


def test_names_that_mean_nothing_here_take_any_value(catalog: icecore.Catalog) -> None:
    """Other engines' properties are theirs."""
    given = {"write.spark.fanout.enabled": "wat", "owner": "", "write.metadata.metrics": "x", "gc.enable": "wat"}
    assert all(known_property(name) is None for name in given)
    assert catalog.create_table("ns.t", SCHEMA, properties=given).properties == given


def test_the_command_line_refuses_them_in_one_line(warehouse: Path, catalog: icecore.Catalog) -> None:
    assert catalog.position == 1
    arguments = ["--warehouse", str(warehouse), "create", "ns.t", "--schema", "id long", "--property", "gc.enabled=wat"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code != 0
    assert "the property gc.enabled must be true or false, found 'wat'" in result.output


def test_adopted_tables_with_other_values_are_read_and_can_be_put_right(catalog: icecore.Catalog) -> None:
    """Nothing is deleted where nobody knows what `gc.enabled` means; schemas change; a good value can be set."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append([{"id": 1}])
    wrong = {
        "gc.enabled": "wat",
        "write.delete.isolation-level": "wat",
        "write.metadata.metrics.column.id": "wat",
        "commit.manifest-merge.enabled": "wat",
        "read.split.open-file-cost": "wat",
    }
    adopted = adopted_copy(catalog, table, wrong)
    assert adopted.scan().to_arrow()["id"].to_pylist() == [1]
    with pytest.raises(ValidationError, match=r"gc\.enabled is not true"):
        adopted.maintenance.expire_snapshots().commit()
    adopted.update_schema().rename_column("id", "key").commit()
    assert adopted.properties["write.metadata.metrics.column.key"] == "wat"
    adopted.set_properties({"write.metadata.metrics.column.key": "full", "write.delete.isolation-level": "snapshot"})
    adopted.append([{"key": 2}])
    assert sorted(adopted.scan().to_arrow()["key"].to_pylist()) == [1, 2]


NUMBERS = {"7": 7, "007": 7, "\u0667": 7, " 7\n": 7, "0": 0}
NO_NUMBERS = ["", " ", "+7", "-7", "7.0", "1_000", "seven", "9" * 30, "9" * 5000]


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_numbers_are_digits(text: str, number: int) -> None:
    """Of any script, as Java's parseInt takes them, with spaces around, as PyIceberg does."""
    assert Whole().parse(text) == number
    assert NUM_RETRIES.or_default({NUM_RETRIES.name: text}) == NUM_RETRIES.of({NUM_RETRIES.name: text}) == number


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_is_refused_or_counts_as_not_set(text: str) -> None:
    """By the same rule for all; the reader says which of the two."""
    assert Whole().fault(text) is not None
    properties = {NUM_RETRIES.name: text, MAX_REF_AGE_MS.name: text}
    assert NUM_RETRIES.or_default(properties) == 19
    for read in (NUM_RETRIES.of, MAX_REF_AGE_MS.find):
        with pytest.raises(ValidationError, match=r"must be a whole number from 0, found"):
            read(properties)


def test_numbers_out_of_range_are_no_values() -> None:
    with pytest.raises(ValidationError, match=r"read\.split\.target-size must be a whole number from 1, found '0'"):
        SPLIT_SIZE.of({SPLIT_SIZE.name: "0"})
    assert MAX_REF_AGE_MS.find({}) is None


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), ("false", False), ("wat", False), ("", False)])
def test_a_flag_is_set_where_it_is_true(text: str, value: bool) -> None:
    """As in Java whatever is not true is false."""
    assert GC_ENABLED.of({GC_ENABLED.name: text}) is GC_ENABLED.or_default({GC_ENABLED.name: text}) is value
