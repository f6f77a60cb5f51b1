"""Partition and sort terms as text: what is understood, which names come out, and what is refused."""

from __future__ import annotations

import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.terms import (
    SortTerm,
    Term,
    parse_partition_term,
    parse_partition_terms,
    parse_sort_terms,
    parse_term,
)
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from icecore.engine.spec.transform import IdentityTransform, parse_transform
from icecore.engine.spec.types import (
    DateType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "my col", StringType()),
        NestedField(4, "a", StructType((NestedField(5, "b", DateType()), NestedField(6, "b c", StringType())))),
        NestedField(7, "select", IntegerType()),
        NestedField(8, "tags", ListType(9, IntegerType())),
        NestedField(10, 'q"t', StringType()),
        NestedField(11, "date", DateType()),
        NestedField(12, "x.y", IntegerType()),
        NestedField(13, "ratio", FloatType()),
        NestedField(14, "id_bucket_8", IntegerType()),
    )
)


@pytest.mark.parametrize(
    ("text", "source_id", "transform", "name"),
    [
        ("id", 1, "identity", "id"),
        ("identity(id)", 1, "identity", "id"),
        ("year(ts)", 2, "year", "ts_year"),
        ("MONTHS(ts)", 2, "month", "ts_month"),
        ("days(ts)", 2, "day", "ts_day"),
        ("Hours(ts)", 2, "hour", "ts_hour"),
        ("date(ts)", 2, "day", "ts_day"),
        ("date_hour(ts)", 2, "hour", "ts_hour"),
        ("bucket(16, id)", 1, "bucket[16]", "id_bucket_16"),
        ("bucket(id, 16)", 1, "bucket[16]", "id_bucket_16"),
        ("truncate(4, `my col`)", 3, "truncate[4]", "my col_trunc_4"),
        ('truncate(4, "my col") AS prefix', 3, "truncate[4]", "prefix"),
        ("my col", 3, "identity", "my col"),
        ("a.b", 5, "identity", "a.b"),
        ("day(a.b)", 5, "day", "a.b_day"),
        ("a.`b c`", 6, "identity", "a.b c"),
        ("select", 7, "identity", "select"),
        ('bucket(4, "select")', 7, "bucket[4]", "select_bucket_4"),
        ('"q""t"', 10, "identity", 'q"t'),
        ("year(date)", 11, "year", "date_year"),
        ('bucket(2, "x.y") as b', 12, "bucket[2]", "b"),
        ("void(id)", 1, "void", "id_null"),
        ('days(ts) as "the day"', 2, "day", "the day"),
    ],
)
def test_pt3_a_term_is_a_column_with_a_transform(text: str, source_id: int, transform: str, name: str) -> None:
    assert parse_partition_term(text, SCHEMA) == (source_id, parse_transform(transform), name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nope", "'nope'.*id, ts, my col"),
        ("month(nope)", r"'month\(nope\)'.*id, ts, my col"),
        ("ID", "no column 'ID'"),
        ("lower(id)", "expected one of identity"),
        ("bucket(id)", "expected one of identity"),
        ("bucket(1.5, id)", "expected one of identity"),
        (f"bucket({'9' * 5000}, id)", "expected one of identity"),
        ("bucket(4, 4)", "expected one of identity"),
        ("bucket(0, id)", r"'bucket\(0, id\)'.*1 to 2147483647"),
        ("bucket(8, ratio)", r"bucket\[8\] can't be applied to 'ratio' of type float"),
        ("hour(date)", "hour can't be applied"),
        ("tags.element", "not inside a list or map"),
        ("a", "must be primitive"),
        ("month(month(ts))", "a column or a transform"),
        ("bucket(4, select)", "need quotes"),
        ("id DESC", "the word AS"),
        ("id AS", "AS a name after it"),
        ("id; ts", "one column or transform"),
        ("id, ts", "can't be parsed"),
        ("", "one column or transform"),
        ("bucket(8, id", "can't be parsed"),
        ("id::int", "a column or a transform"),
        ("(" * 3000, "can't be parsed"),
    ],
)
def test_a_term_that_is_no_such_thing_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        parse_partition_term(text, SCHEMA)


def test_case_counts_only_where_asked_for() -> None:
    assert parse_term("DAY(TS)", SCHEMA, case_sensitive=False) == Term(2, parse_transform("day"), None)


def test_pt1_terms_become_a_spec_with_ids_from_1000() -> None:
    spec = parse_partition_terms(["day(ts)", "bucket(4, id)", "a.b"], SCHEMA)
    assert [(f.source_ids, f.field_id, str(f.transform), f.name) for f in spec.fields] == [
        ((2,), 1000, "day", "ts_day"),
        ((1,), 1001, "bucket[4]", "id_bucket_4"),
        ((5,), 1002, "identity", "a.b"),
    ]
    assert parse_partition_terms(None, SCHEMA) is UNPARTITIONED
    assert parse_partition_terms([], SCHEMA) == UNPARTITIONED


def test_a_spec_that_is_given_is_checked_against_the_schema() -> None:
    good = PartitionSpec((PartitionField((1,), 1000, IdentityTransform(), "id"),), 3)
    assert parse_partition_terms(good, SCHEMA) is good
    with pytest.raises(ValidationError, match="no column with id 99"):
        parse_partition_terms(PartitionSpec((PartitionField((99,), 1000, IdentityTransform(), "x"),)), SCHEMA)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        (["day(ts)", "hour(ts)"], "redundant"),
        (["bucket(4, id) AS one", "bucket(4, id) AS two"], "redundant"),
        (["id", "identity(id) AS other"], "redundant"),
        (["bucket(8, id)"], "'id_bucket_8'.*the name of a column"),
        (["day(ts) AS ts"], "the name of a column"),
        (["id AS ts"], "the name of a column"),
        (["day(ts) AS x", "bucket(4, id) AS x"], "used twice"),
        ("day(ts)", "must be a list"),
    ],
)
def test_fields_that_clash_are_refused(terms: list[str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        parse_partition_terms(terms, SCHEMA)


def test_two_buckets_of_one_column_are_two_fields() -> None:
    spec = parse_partition_terms(["bucket(4, id)", "bucket(16, id)", "truncate(10, id)"], SCHEMA)
    assert [f.name for f in spec.fields] == ["id_bucket_4", "id_bucket_16", "id_trunc_10"]


@pytest.mark.parametrize(
    ("text", "direction", "nulls"),
    [
        ("ts", "asc", "nulls-first"),
        ("ts ASC", "asc", "nulls-first"),
        ("ts asc nulls last", "asc", "nulls-last"),
        ("ts DESC", "desc", "nulls-last"),
        ("ts desc NULLS FIRST", "desc", "nulls-first"),
        ("ts nulls last", "asc", "nulls-last"),
    ],
)
def test_so1_nulls_come_first_ascending_and_last_descending(text: str, direction: str, nulls: str) -> None:
    order = parse_sort_terms([text], SCHEMA)
    expected = SortField((2,), IdentityTransform(), SortDirection(direction), NullOrder(nulls))
    assert order == SortOrder((expected,), 1)


def test_so1_sort_terms_take_transforms_and_quoted_names() -> None:
    order = parse_sort_terms(
        ["bucket(4, id) desc", "`my col`", "my col", SortTerm("ts", transform=parse_transform("day"))], SCHEMA
    )
    assert [(f.source_id, str(f.transform), str(f.direction)) for f in order.fields] == [
        (1, "bucket[4]", "desc"),
        (3, "identity", "asc"),
        (3, "identity", "asc"),
        (2, "day", "asc"),
    ]
    assert parse_sort_terms(None, SCHEMA) is UNSORTED
    assert parse_sort_terms([], SCHEMA) is UNSORTED


@pytest.mark.parametrize("text", ["nope desc", "ts desc nulls", "ts AS x", "ts, id", "a", "tags.element desc"])
def test_sort_terms_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="term"):
        parse_sort_terms([text], SCHEMA)
    with pytest.raises(ValidationError, match="term"):
        parse_sort_terms([SortTerm(text)], SCHEMA)
