"""Scans as lazy frames of Polars, whose filters leave files out and whose columns are the only ones that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import TRUE, Expression, Predicate, PredicateOperator, Reference, TypedValue
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

_COMPARISONS = {
    "Eq": PredicateOperator.EQ,
    "NotEq": PredicateOperator.NOT_EQ,
    "Lt": PredicateOperator.LT,
    "LtEq": PredicateOperator.LT_EQ,
    "Gt": PredicateOperator.GT,
    "GtEq": PredicateOperator.GT_EQ,
}
_FLIPPED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_NULL_TESTS = {"IsNull": PredicateOperator.IS_NULL, "IsNotNull": PredicateOperator.NOT_NULL}


class Filtered(Protocol):
    """A scan as its lazy frame sees it."""

    schema: Schema
    limit: int | None

    @property
    def projection(self) -> Schema: ...

    def filtered(self, further: Expression) -> Filtered: ...

    def plan_files(self) -> list[FileScanTask]: ...

    def read_tasks(self, tasks: Sequence[FileScanTask], projection: Schema) -> Iterator[pa.RecordBatch]: ...


def lazy_frame(scan: Filtered) -> pl.LazyFrame:
    """The frame of a scan's rows. Nothing is planned before they are asked for."""
    names = [f.name for f in scan.projection.fields]

    def rows(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = names if with_columns is None else with_columns
        needed = {*wanted, *([] if predicate is None else predicate.meta.root_names())} or set(names[:1])
        fields = tuple(f for f in scan.projection.fields if f.name in needed)
        projection = Schema(fields, scan.schema.schema_id)
        # The scan's own limit counts rows before the predicate drops any.
        condition = None if predicate is None or scan.limit is not None else condition_of(predicate, scan.schema)
        limits = [n for n in (scan.limit, n_rows if predicate is None else None) if n is not None]
        for batch in _batches(scan if condition is None else scan.filtered(condition), projection, limits):
            frame = _frame(pa.Table.from_batches([batch]))
            yield (frame if predicate is None else frame.filter(predicate)).select(wanted)

    empty = no_rows(schema_to_arrow(scan.projection, with_ids=False))
    return register_io_source(rows, schema=_frame(empty).schema)


def _batches(scan: Filtered, projection: Schema, limits: Sequence[int]) -> Iterator[pa.RecordBatch]:
    arrow = schema_to_arrow(projection, with_ids=False)
    left = min(limits, default=None)
    if left == 0:
        return
    for batch in scan.read_tasks(scan.plan_files(), projection):
        batch = narrow(batch, arrow)
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        yield batch
        if left == 0:
            return


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def condition_of(predicate: pl.Expr, schema: Schema) -> Expression:
    """The part of a predicate that is understood, bound to a schema; Polars applies the whole predicate itself.

    Comparisons of a column with a literal of its type, null tests, AND and OR are understood.
    """
    try:
        tree = orjson.loads(predicate.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError):
        return TRUE
    found = _condition(tree, schema)
    return TRUE if found is None else bind(found, schema)


def _condition(tree: Any, schema: Schema) -> Expression | None:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            sides = [c for c in (_condition(left, schema), _condition(right, schema)) if c is not None]
            return and_(*sides) if sides else None
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            first, second = _condition(left, schema), _condition(right, schema)
            return None if first is None or second is None else or_(first, second)
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": {"Literal": literal}}}:
            return _comparison(name, op, literal, schema)
        case {"BinaryExpr": {"left": {"Literal": literal}, "op": str(op), "right": {"Column": str(name)}}}:
            return _comparison(name, _FLIPPED.get(op, op), literal, schema)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": str(test)}}} if (
            test in _NULL_TESTS
        ):
            return Predicate(_NULL_TESTS[test], Reference(name)) if _column(name, schema) else None
        case {"Column": str(name)}:
            return _comparison(name, "Eq", {"Scalar": {"Boolean": True}}, schema)
    return None


def _comparison(name: str, op: str, literal: Any, schema: Schema) -> Expression | None:
    field = _column(name, schema)
    value = None if field is None else _value(literal, field)
    if value is None or op not in _COMPARISONS:
        return None
    return Predicate(_COMPARISONS[op], Reference(name), (value,))


def _column(name: str, schema: Schema) -> NestedField | None:
    """The top-level column of that name; None where the name could also be the path of a nested column."""
    found = next((f for f in schema.fields if f.name == name), None)
    return found if found is not None and schema.name_of(found.field_id) == name and "." not in name else None


def _value(literal: Any, field: NestedField) -> Any:
    """A literal as a filter has it, if it is of exactly the column's type; else None."""
    # Literals under `Dyn` have no Polars type yet, only a Python one.
    scalar = literal.get("Scalar") or literal.get("Dyn") if isinstance(literal, dict) else None
    kind, value = next(iter(scalar.items()), ("", None)) if isinstance(scalar, dict) else ("", None)
    of_type = _VALUES.get((type(field.field_type), kind))
    return None if of_type is None else of_type(value)


def _timestamp(kind: TimestampType | TimestamptzType, zone: str | None) -> Callable[[Any], Any]:
    def value(found: Any) -> Any:
        number, unit, found_zone = found
        fits = unit == "Microseconds" and (found_zone is None) == (zone is None)
        return TypedValue(kind, number) if fits else None

    return value


_VALUES: Mapping[tuple[type, str], Callable[[Any], Any]] = {
    (IntegerType, "Int32"): int,
    (IntegerType, "Int"): int,
    (LongType, "Int64"): int,
    (LongType, "Int"): int,
    (DoubleType, "Float64"): lambda v: TypedValue(DoubleType(), float(v)) if isinstance(v, (int, float)) else None,
    (StringType, "String"): lambda v: v if isinstance(v, str) else None,
    (BooleanType, "Boolean"): lambda v: v if isinstance(v, bool) else None,
    (DateType, "Date"): lambda v: TypedValue(DateType(), v) if isinstance(v, int) else None,
    (TimestampType, "Datetime"): _timestamp(TimestampType(), None),
    (TimestamptzType, "Datetime"): _timestamp(TimestamptzType(), "UTC"),
}
