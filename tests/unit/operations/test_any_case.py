"""Changes whose names are meant in any case, and the names that parameters had before."""

from __future__ import annotations

import pytest
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.errors import ExpressionError, ValidationError


def test_filters_and_keys_in_any_case(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2, 3))
    table.delete("ID = 1", case_sensitive=False)
    table.overwrite(rows(4), "Id = 2 AND NOT NAME IS NULL", case_sensitive=False)
    assert ids_of(table) == [3, 4]
    told = table.upsert(rows(4, 5), ["ID"], case_sensitive=False)
    assert (told.rows_inserted, ids_of(table)) == (1, [3, 4, 5])


def test_filters_of_rewrites_and_partitions_in_any_case(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    for i in range(3):
        table.append(rows(i))
    assert [table.partitions(f"ID = {i}", case_sensitive=False).num_rows for i in (2, 3)] == [1, 0]
    chosen = {"rewrite-all": "true"}
    told = table.rewrite_data_files("ID < 2", options=chosen, case_sensitive=False, dry_run=True)
    assert told.rewritten_data_files == 2
    with table.transaction() as transaction:
        transaction.rewrite_data_files("ID < 2", options=chosen, case_sensitive=False)
    assert (len(table.files()), ids_of(table)) == (2, [0, 1, 2])
    with pytest.raises(ExpressionError, match="no column 'ID'"):
        table.rewrite_data_files("ID < 2")
    with pytest.raises(ExpressionError, match="no column 'ID'"):
        table.partitions("ID < 2")


def test_case_counts_unless_told(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    with pytest.raises(ExpressionError, match="no column 'ID'"):
        table.delete("ID = 1")
    with pytest.raises(ExpressionError, match="no column 'ID'"):
        table.overwrite(rows(2), "ID = 1")
    with pytest.raises(ExpressionError, match="no column 'none'"):
        table.delete("none = 1", case_sensitive=False)
    with pytest.raises(ValidationError, match="'ID'"):
        table.upsert(rows(1), ["ID"])
    assert ids_of(table) == [1]


def test_of_two_columns_that_differ_in_case_the_named_one_is_meant(catalog: icecore.Catalog) -> None:
    import pyarrow as pa

    catalog.create_namespace("two")
    table = catalog.create_table("two.t", pa.schema([("a", pa.int64()), ("A", pa.int64())]))
    table.append([{"a": 1, "A": 2}, {"a": 2, "A": 1}])
    scan = table.scan("A = 1", selected_fields=("A", "a"), case_sensitive=False)
    assert scan.to_arrow().to_pylist() == [{"a": 2, "A": 1}]
    assert scan.aggregate("max(A)", "max(a)").values == {"max(A)": 1, "max(a)": 2}
    assert table.prefetch("A = 1", name="p", case_sensitive=False).scan.to_arrow().num_rows == 1
    table.delete("A = 1", case_sensitive=False)
    assert table.scan().to_arrow().to_pylist() == [{"a": 1, "A": 2}]
    with table.update_schema(case_sensitive=False) as update:
        update.rename_column("A", "b")
    assert table.scan("B = 2", case_sensitive=False).to_arrow().to_pylist() == [{"a": 1, "b": 2}]


def test_rows_by_the_name_that_the_parameter_had_before(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(data=rows(1))  # type: ignore[call-arg]  # as it was
    with table.transaction() as changes:
        changes.append(data=rows(2))  # type: ignore[call-arg]  # as it was
    table.overwrite(data=rows(3), overwrite_filter="id = 1")  # type: ignore[call-arg]  # as it was
    assert ids_of(table) == [2, 3]
    with pytest.raises(TypeError, match="unexpected keyword argument 'datum'"):
        table.append(datum=rows(1))  # type: ignore[call-arg]  # no name at all


def test_a_delete_without_a_filter_is_refused(catalog: icecore.Catalog) -> None:
    """A variable that was never set deletes nothing, as in PyIceberg; a scan and an overwrite take it for all rows."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    with pytest.raises(ExpressionError, match="a delete takes a filter, found None"):
        table.delete(None)
    for delete in (table.delete, table.transaction().delete):
        with pytest.raises(ExpressionError, match=r"delete\('true'\) deletes all rows"):
            delete()
    assert ids_of(table) == [1, 2]
