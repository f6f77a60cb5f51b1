"""Dynamic partition overwrite: exactly the partitions of the new data are replaced."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from core_tables import make_table, peer_ids, rows, sorted_rows

import icecore
from icecore.engine.errors import ValidationError

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("x", pa.float64())])


def data(*given: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in given], schema=SCHEMA)


def make(catalog: icecore.Catalog, *spec: str, **options: Any) -> icecore.Table:
    table: icecore.Table = catalog.create_table("ns.t", SCHEMA, partition_spec=spec, **options)
    return table


def found(table: icecore.Table) -> list[tuple[Any, ...]]:
    return sorted_rows(table.scan().to_arrow())


@pytest.mark.parametrize("version", [1, 2, 3])
def test_only_the_partitions_of_the_data_are_replaced(catalog: icecore.Catalog, version: int) -> None:
    """Partitions of null and of a value go whole; others stay as they are; one snapshot, which says what it is."""
    table = make(catalog, "kind", format_version=version)
    table.append(data((1, "a", 0.0), (2, "b", 0.0), (3, None, 0.0), (4, "a", 1.0)))
    table.dynamic_partition_overwrite(data((5, "a", 0.0), (6, None, 0.0), (7, "new", 0.0)))
    assert [r[0] for r in found(table)] == [2, 5, 6, 7]
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.operation == "overwrite"
    assert snapshot.summary["replace-partitions"] == "true"
    assert snapshot.summary["deleted-data-files"] == "2"
    assert len(table.snapshots()) == 2
    assert peer_ids(catalog.path) == [2, 5, 6, 7]


@pytest.mark.parametrize("spec", ["bucket(4, id)", "truncate(2, id)"])
def test_transforms(catalog: icecore.Catalog, spec: str) -> None:
    """The partition is the transform's, whatever it is: rows go with those that share it."""
    table = make(catalog, spec)
    table.append(data(*((i, "a", 0.0) for i in range(20))))
    [gone] = [t.file.partition for t in table.scan("id = 4").plan_files() if t.file.partition]
    stay = [t for t in table.scan().plan_files() if t.file.partition != gone]
    table.dynamic_partition_overwrite(data((4, "b", 0.0)))
    assert len(found(table)) == sum(t.file.record_count for t in stay) + 1


def test_sp5_float_partitions(catalog: icecore.Catalog) -> None:
    """SP5: NaN is a partition, and -0.0 and 0.0 are two."""
    table = make(catalog, "x")
    table.append(data((1, "a", math.nan), (2, "a", -0.0), (3, "a", 0.0), (4, "a", 1.0)))
    table.dynamic_partition_overwrite(data((5, "a", math.nan), (6, "a", -0.0)))
    assert [r[0] for r in found(table)] == [3, 4, 5, 6]


PAIRS = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def pairs(*given: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"a": a, "b": b} for a, b in given], schema=PAIRS)


@pytest.mark.parametrize("spec", [["b"], ["a", "b"], ["bucket(2, a)"]])
def test_a_spec_that_changes_meanwhile(catalog: icecore.Catalog, spec: list[str]) -> None:
    """The partitions are those that the data was written for, whatever the table's spec is by the commit."""
    table = catalog.create_table("ns.t", PAIRS, partition_spec=["a"])
    table.append(pairs((1, 1), (1, 2), (2, 1), (3, 1)))
    with table.transaction() as transaction:
        transaction.dynamic_partition_overwrite(pairs((1, 9)))
        other = catalog.load_table("ns.t")
        with other.update_spec() as update:
            update.remove_field("a")
        with other.update_spec() as update:
            for term in spec:
                update.add_field(term)
        other.append(pairs((1, 3), (4, 1)))
    assert found(table.refresh()) == [(1, 9), (2, 1), (3, 1), (4, 1)]
    assert catalog.verify().ok


def test_a_column_that_a_spec_needs_is_dropped_meanwhile(catalog: icecore.Catalog) -> None:
    """It can't be told any more which rows of other specs' files belong to the partitions."""
    table = catalog.create_table("ns.t", PAIRS, partition_spec=["a"])
    table.append(pairs((1, 1), (2, 1)))
    with pytest.raises(ValidationError, match="no column with id"), table.transaction() as transaction:
        transaction.dynamic_partition_overwrite(pairs((1, 9)))
        other = catalog.load_table("ns.t")
        with other.transaction() as evolving:
            with evolving.update_spec() as update:
                update.remove_field("a")
                update.add_field("b")
            with evolving.update_schema() as change:
                change.delete_column("a")
    assert table.refresh().scan().count() == 2


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_files_of_another_spec(catalog: icecore.Catalog, version: int, mode: str) -> None:
    """Of files that an older spec partitioned the rows of a replaced partition go, the others keep their place."""
    table = make(catalog, format_version=version, properties={"write.delete.mode": mode})
    table.append(data((1, "a", 0.0), (2, "b", 0.0)))
    table.append(data((3, "b", 0.0)))
    table.append(data((4, "a", 0.0)))
    table.update_spec().add_field("kind").commit()
    table.append(data((5, "a", 0.0), (6, "b", 0.0)))
    table.dynamic_partition_overwrite(data((7, "a", 0.0)))
    assert [r[0] for r in found(table)] == [2, 3, 6, 7]
    if version == 2:
        assert peer_ids(catalog.path) == [2, 3, 6, 7]


def test_no_rows_change_nothing(catalog: icecore.Catalog) -> None:
    table = make(catalog, "kind")
    table.append(data((1, "a", 0.0)))
    position = catalog.position
    table.dynamic_partition_overwrite(data())
    assert catalog.position == position


def test_an_unpartitioned_table_is_refused(catalog: icecore.Catalog) -> None:
    """As PyIceberg does: replacing all would be a surprise."""
    with pytest.raises(ValidationError, match="partitioned"):
        make_table(catalog).dynamic_partition_overwrite(rows(1))


def test_it_is_planned_again_on_a_moved_branch(catalog: icecore.Catalog) -> None:
    """A file that came to a partition after the call began goes with it."""
    table = make(catalog, "kind")
    table.append(data((1, "a", 0.0)))
    with table.transaction() as transaction:
        transaction.dynamic_partition_overwrite(data((2, "a", 0.0)))
        catalog.load_table("ns.t").append(data((3, "a", 0.0), (4, "b", 0.0)))
    assert [r[0] for r in found(table)] == [2, 4]
