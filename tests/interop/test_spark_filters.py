"""Filters as Spark SQL are true for the same rows as in the engine's own evaluation, for values of every type."""

from __future__ import annotations

import datetime as dt
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from expression_cases import VALUES, literal_texts  # noqa: E402
from pyspark.sql import types as T  # noqa: E402
from spark_tables import STORAGE, metadata_of, schema_of, tasks_of, write  # noqa: E402

from icecore.engine.data.arrow.arrow_values import to_array  # noqa: E402
from icecore.engine.data.write.write_rows import write_data_files  # noqa: E402
from icecore.engine.errors import ExpressionError  # noqa: E402
from icecore.engine.expression.bind import bind  # noqa: E402
from icecore.engine.expression.evaluate import evaluate  # noqa: E402
from icecore.engine.expression.nodes import BoundTerm, Expression  # noqa: E402
from icecore.engine.expression.sql.parse import parse_filter  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spark.read.stored_arrow import stored_array  # noqa: E402
from icecore.engine.spark.relation.catalyst_filter import exact_filter_of, filter_of  # noqa: E402
from icecore.engine.spark.relation.java_classes import ENABLED, planned_relations  # noqa: E402
from icecore.engine.spark.spark_filter import to_spark_sql  # noqa: E402
from icecore.engine.spark.spark_sql_text import quote  # noqa: E402
from icecore.engine.spark.spark_types import stored_type  # noqa: E402
from icecore.engine.spec.partition import UNPARTITIONED  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    FLOATING_TYPES,
    DateType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzType,
    UUIDType,
)

NAME = "a `name` it's"
CONDITIONS = 60


def schema_for(column_type: PrimitiveType) -> Schema:
    return schema_of((1, "id", LongType()), (2, NAME, column_type))


def filters(column_type: PrimitiveType, count: int) -> list[tuple[str, Expression]]:
    """Some of the comparisons with the literals of a type, always the same ones."""
    quoted = '"' + NAME + '"'
    texts = literal_texts(column_type, VALUES[column_type])
    all_ = [f"{quoted} {op} {t}" for t in texts for op in ("=", "<>", "<", "<=", ">", ">=")]
    all_ += [f"{quoted} {word} ({a}, {b})" for a, b in pairwise(texts) for word in ("IN", "NOT IN")]
    chosen = random.Random(str(column_type)).sample(all_, min(count, len(all_)))
    chosen += [f"{quoted} IS NULL", f"{quoted} IS NOT NULL", f"NOT ({chosen[0]} OR {chosen[1]})"]
    if isinstance(column_type, StringType):
        patterns = ["a%", "ab_%", "_", "%c", "é%", "a!_b!%", "%\U0010ffff", "", "a\\_b%"]
        chosen += [f"{quoted} {word} '{p}' ESCAPE '!'" for p in patterns for word in ("LIKE", "NOT LIKE")]
    out = []
    for text in chosen:
        try:
            out.append((text, bind(parse_filter(text), schema_for(column_type))))
        except ExpressionError:
            continue
    assert len(out) > 5
    return out


def rows_of(column_type: PrimitiveType) -> list[Any]:
    return [*VALUES[column_type], None]


def expected(bound: Expression, column_type: PrimitiveType) -> list[int]:
    def holds(value: Any) -> bool:
        return evaluate(bound, lambda _: value)

    return [i for i, v in enumerate(rows_of(column_type)) if holds(v)]


@pytest.mark.parametrize("column_type", VALUES, ids=str)
def test_conditions_are_true_for_the_same_rows(spark: Any, column_type: PrimitiveType) -> None:
    """Each condition as a column of one query, in a zone far from UTC; not true may be false or null."""
    cases = filters(column_type, CONDITIONS)
    values = rows_of(column_type)
    stored = stored_array(to_array(column_type, values, with_ids=False), column_type)
    table = pa.table([pa.array(range(len(values)), pa.int64()), stored], names=["id", NAME])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        fields = [T.StructField("id", T.LongType()), T.StructField(NAME, stored_type(column_type))]
        frame = spark.createDataFrame(table, T.StructType(fields))
        sql = [to_spark_sql(bound, lambda t: quote(*t.name.split("."))) for _, bound in cases]
        found = frame.selectExpr("id", *(f"coalesce({s}, FALSE) AS c{i}" for i, s in enumerate(sql))).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    wrong = [
        (text, sorted(r.id for r in found if r[f"c{i}"]), expected(bound, column_type), sql[i])
        for i, (text, bound) in enumerate(cases)
        if sorted(r.id for r in found if r[f"c{i}"]) != expected(bound, column_type)
    ]
    assert not wrong


@pytest.mark.parametrize("column_type", VALUES, ids=str)
def test_conditions_of_spark_are_understood_both_ways(spark: Any, column_type: PrimitiveType) -> None:
    """As Spark's optimizer leaves them: no row too few, and none too many where they are said to be exact."""
    cases = filters(column_type, 12)
    values = rows_of(column_type)
    fields = [T.StructField("id", T.LongType()), T.StructField(NAME, stored_type(column_type))]
    frame = spark.createDataFrame([], T.StructType(fields)).repartition(2)
    columns: dict[tuple[str, ...], BoundTerm] = {(NAME,): BoundTerm(schema_for(column_type).find_field(2), NAME)}
    exact, wrong = 0, []
    for text, bound in cases:
        said = text_of(spark, frame.where(to_spark_sql(bound, lambda t: quote(*t.name.split(".")))))
        if said is None:
            continue
        wanted = set(expected(bound, column_type))
        found = filter_of(said, columns)
        if not wanted <= {i for i, v in enumerate(values) if holds(found, v)}:
            wrong.append((text, said, str(found)))
        told = exact_filter_of(said, columns)
        if told is not None:
            exact += 1
            if wanted != {i for i, v in enumerate(values) if holds(told, v)}:
                wrong.append((text, said, str(told)))
    assert not wrong
    # Floats have NaN and two zeros, about which rules differ.
    assert bool(exact) is not isinstance(column_type, FLOATING_TYPES)


def holds(bound: Expression, value: Any) -> bool:
    return evaluate(bound, lambda _: value)


def text_of(spark: Any, frame: Any) -> str | None:
    """The optimized condition of a frame as a file index is told of it; None where Spark knows its answer."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    while plan.getClass().getSimpleName() != "Filter":
        if plan.children().isEmpty():
            return None
        plan = plan.children().head()
    java = planned_relations(spark)
    assert java is not None
    (of,) = (
        m for m in java.getClass().getClassLoader().loadClass("icecore.FilterText").getMethods() if m.getName() == "of"
    )
    gateway = spark._sc._gateway
    conditions = gateway.jvm.java.util.ArrayList()
    conditions.add(plan.condition())
    arguments = gateway.new_array(gateway.jvm.java.lang.Object, 1)
    arguments[0] = gateway.jvm.org.apache.spark.api.python.PythonUtils.toSeq(conditions)
    return str(of.invoke(None, arguments))


@pytest.mark.parametrize("kind", ["float", "decimal(9, 2)", "date", "timestamp_ns", "string", "uuid"])
def test_filters_that_spark_pushes_down_lose_no_row(spark: Any, tmp_path: Path, kind: str) -> None:
    """The same over a file with a row group for each row, in which a wrong pushdown loses rows."""
    column_type = next(t for t in VALUES if str(t) == kind)
    schema, values = schema_for(column_type), rows_of(column_type)
    column = to_array(UUIDType() if isinstance(column_type, UUIDType) else column_type, values)
    table = pa.table([pa.array(range(len(values)), pa.int64()), column], names=["id", NAME])
    files = write_data_files(
        table,
        schema=schema,
        spec=UNPARTITIONED,
        location=str(tmp_path),
        storage=STORAGE,
        properties={"write.parquet.row-group-limit": "1"},
        file_prefix="f",
    )
    cases = filters(column_type, 25)
    frames = [
        read_tasks(
            spark,
            tasks_of(files),
            projection=schema.select(["id"]),
            metadata=metadata_of(schema),
            storage=STORAGE,
            filter=bound,
        ).selectExpr(f"{i} AS i", "id")
        for i, (_, bound) in enumerate(cases)
    ]
    union = frames[0]
    for frame in frames[1:]:
        union = union.union(frame)
    found = union.collect()
    wrong = [
        (text, sorted(r.id for r in found if r.i == i), expected(bound, column_type))
        for i, (text, bound) in enumerate(cases)
        if sorted(r.id for r in found if r.i == i) != expected(bound, column_type)
    ]
    assert not wrong


def test_values_that_the_julian_calendar_lacks_are_found(either_way: Any, tmp_path: Path) -> None:
    """Spark gives filters to its Parquet reader by that calendar, in which ten days of 1582 are others.

    A condition said in Spark is its own affair by public API.
    """
    schema = schema_of((1, "day", DateType()), (2, "moment", TimestamptzType()))
    day, moment = dt.date(1582, 10, 14), dt.datetime(1582, 10, 10, 12, tzinfo=dt.UTC)
    tasks = tasks_of(write(tmp_path, schema, {"day": [day], "moment": [moment]}))
    conditions = ["day = DATE '1582-10-14'", "day IN (DATE '1582-10-14', DATE '2000-01-01')"]
    conditions.append("moment >= TIMESTAMP '1582-10-10 12:00:00+00:00' AND day > DATE '1500-01-01'")

    def read(text: str) -> Any:
        bound = bind(parse_filter(text), schema)
        return read_tasks(
            either_way, tasks, projection=schema, metadata=metadata_of(schema), storage=STORAGE, filter=bound
        )

    for text in conditions:
        assert len(read(text).collect()) == 1, text
        if either_way.conf.get(ENABLED) == "true":
            assert len(read("TRUE").where(text).collect()) == 1, text
