"""The guard of columns that are found by field id, where the setting for that can't be pinned.

By public API Spark looks at `spark.sql.parquet.fieldId.read.enabled` when a query runs. Where it is off by then, Spark
looks columns up by name, and those that are read under a name that no file has would be null without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from icecore.engine.spark.name_rule import is_plain
from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.frame_columns import FIELD_ID, ReadColumn
from icecore.engine.spark.read.frame_names import alias, is_taken
from icecore.engine.spark.read.scan_context import ScanContext
from icecore.engine.spark.spark_sql_text import quote, text_literal
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import walk

_SWITCHED_OFF = (
    "spark.sql.parquet.fieldId.read.enabled was switched off after the DataFrame was made: "
    "its columns are found by field id"
)
_FIRST_ID = 2_000_000_000


@frozen
class IdGuard:
    """Fields with the names of columns in files and ids that no file has: null unless Spark looks up names."""

    fields: tuple[T.StructField, ...]

    @classmethod
    def of(cls, context: ScanContext, columns: Sequence[ReadColumn], *, by_id: bool) -> IdGuard:
        """The guard of the columns that are read `by_id` under names that no file has; empty where there are none."""
        if not by_id:
            return cls(())
        taken = {c.name.lower() for c in columns if c.name is not None}
        schemas = (context.schema, *context.metadata.schemas)
        ids = _unused_ids(schemas)
        made = []
        for column in columns:
            if column.is_read and column.name == alias(column.field.field_id):
                for name in _names(column, schemas):
                    is_read = name.lower() in taken or is_taken(name)
                    if not is_read and (is_plain(name) or not context.takes_names_for_patterns):
                        taken.add(name.lower())
                        field = column.spark_field(with_ids=False)
                        made.append(T.StructField(name, field.dataType, True, {FIELD_ID: next(ids)}))
        return cls(tuple(made))

    def guarded(self, frame: DataFrame, shown: Iterable[str]) -> DataFrame:
        """The shown columns of a frame; a query that looks columns up by name fails."""
        if not self.fields:
            return frame
        found = " OR ".join(f"{quote(f.name)} IS NOT NULL" for f in self.fields)
        checked = frame.where(F.expr(f"IF({found}, CAST(raise_error({text_literal(_SWITCHED_OFF)}) AS BOOLEAN), TRUE)"))
        return checked.select(*(F.col(quote(name)) for name in shown))


def _names(column: ReadColumn, schemas: Iterable[Schema]) -> Iterator[str]:
    """The names that a top-level column has, or had."""
    yield column.field.name
    for schema in schemas:
        yield from (f.name for f in schema.fields if f.field_id == column.field.field_id)


def _unused_ids(schemas: Sequence[Schema]) -> Iterator[int]:
    used = {f.field_id for s in schemas for f in walk(s.fields)}
    return (i for i in range(_FIRST_ID, 2**31) if i not in used)
