"""Which column of a merge's source is which of the table: no session of Spark is needed."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from icecore.engine.errors import ValidationError
from icecore.engine.spark.change.merge_clause import MergeNames
from icecore.engine.spark.change.merge_keys import keys_condition
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, LongType, NestedField, TimestampNanoType, TimestamptzNanoType


def common(table: str, source: str, case_sensitive: bool = False) -> dict[str, str]:
    """The common columns, of names that are given with blanks between them."""
    fields = tuple(NestedField(i, name, LongType(), False) for i, name in enumerate(table.split(), 1))
    return MergeNames("t", "s", Schema(fields), tuple(source.split()), case_sensitive).common()


def test_columns_of_the_same_names() -> None:
    """One column of the source is one of the table, of which others may have its name in another case."""
    assert common("a b c", "c d a") == {"a": "a", "c": "c"}
    assert common("a A", "a") == {"a": "a"}
    assert common("a A", "A") == {"A": "A"}
    assert common("a A b", "b A a") == {"a": "a", "A": "A", "b": "b"}
    assert common("a", "A a") == {"a": "a"}
    assert common("Id NAME", "name ID") == {"Id": "ID", "NAME": "name"}
    assert common("Id name", "name ID", case_sensitive=True) == {"name": "name"}


@pytest.mark.parametrize(
    ("table", "source", "text"),
    [
        ("Id ID", "id", r"columns 'id' is which of the table's 'Id', 'ID'"),
        ("id", "Id ID", r"columns 'Id', 'ID' is which of the table's 'id'"),
        ("a A", "x", "no column of the table"),
    ],
)
def test_columns_that_can_not_be_told(table: str, source: str, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        common(table, source)


def test_keys_that_spark_can_not_tell_apart() -> None:
    """Nanoseconds are cut where Spark compares: rows of other keys would be changed."""
    fields = (
        NestedField(1, "id", LongType(), False),
        NestedField(2, "at", TimestampNanoType(), False),
        NestedField(3, "all", ListType(4, TimestamptzNanoType()), False),
    )
    names = MergeNames("t", "s", Schema(fields), ("id", "at", "all"), False)
    for keys, text in ((("id", "at"), "'at' has nanoseconds"), (("all",), "'all' has"), (("no",), "'no' must be in")):
        with pytest.raises(ValidationError, match=text):
            keys_condition(keys, names, StructType(), is_upsert=True)
