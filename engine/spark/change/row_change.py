"""Deletes and updates by Spark: the rows that a condition selects are found and changed in its tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.spark.change.assignments import Assignments, Values
from icecore.engine.spark.change.changed_rows import (
    computed_once,
    conformed,
    discarding_on_error,
    write_rows,
)
from icecore.engine.spark.change.file_rewrite import FileRewrite
from icecore.engine.spark.change.position_tasks import IS_UPDATE, write_positions
from icecore.engine.spark.change.target_rows import KEPT_ROW_ID, NUMBER, PATH, POSITION, TargetRows
from icecore.engine.spark.change.written_rows import WrittenRows
from icecore.engine.spark.name_rule import is_case_sensitive
from icecore.engine.spark.pyspark_api import Column, DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage

Condition: TypeAlias = Expression | Column
"""A bound expression of the engine, or a condition that only Spark understands."""
TARGET = "target"


@frozen
class RowChange:
    """A change of the rows that a condition selects, in files planned by it.

    `by_position` says whether rows are deleted by position or by writing their files again.
    """

    session: SparkSession
    metadata: TableMetadata
    storage: Storage
    tasks: Sequence[FileScanTask]
    condition: Condition
    by_position: bool

    def delete(self) -> WrittenRows:
        """Deletes the rows. Files whose rows all match are removed without being read. Raises StorageError."""
        is_ours = not isinstance(self.condition, Column)
        whole = tuple(t.file.file_path for t in self.tasks if is_ours and t.residual == TRUE)
        target = self._target([t for t in self.tasks if not is_ours or t.residual != TRUE])
        if not target.tasks:
            return WrittenRows(gone=whole)
        positions = target.numbered(self._selected(target).select(PATH, POSITION, F.lit(False).alias(IS_UPDATE)))
        written = write_positions(positions, target, self._rewrite())
        return written + WrittenRows(gone=whole)

    def update(self, values: Values) -> WrittenRows:
        """Gives columns of the rows new values. Raises ValidationError where these don't fit, StorageError."""
        target, schema = self._target(self.tasks), self.metadata.schema()
        selected = self._selected(target)
        assigned = Assignments.of(values, schema, case_sensitive=is_case_sensitive(self.session))
        assigned.check_kept(schema)
        own = target.own_names
        columns = [assigned.column(f, F.col(quote(TARGET, own.get(f.name, f.name)))) for f in schema.fields]
        ids = [KEPT_ROW_ID] if target.has_row_ids else []
        new = [f"{NUMBER}_{i}" for i, _ in enumerate(schema.fields)]
        values_of = [F.col(name).alias(f.name) for name, f in zip(new, schema.fields, strict=True)]
        changed = selected.select(PATH, POSITION, *ids, *(c.alias(n) for n, c in zip(new, columns, strict=True)))
        # Finds out, before any job, where types don't fit.
        conformed([changed.select(*ids, *values_of)], self.metadata)
        with computed_once(target.numbered(changed)) as changed, discarding_on_error(self.storage) as written:
            positions = changed.select(NUMBER, POSITION, F.lit(True).alias(IS_UPDATE))
            written.add(write_positions(positions, target, self._rewrite()))
            updated = written.rows.rows_updated
            if updated:
                rows = conformed([changed.select(*ids, *values_of)], self.metadata)
                written.add(write_rows(rows, self.metadata, self.storage))
                written.add(WrittenRows(rows_inserted=-updated))
            return written.rows

    def _target(self, tasks: Sequence[FileScanTask]) -> TargetRows:
        return TargetRows(self.session, self.metadata, self.storage, tuple(tasks))

    def _selected(self, target: TargetRows) -> DataFrame:
        if isinstance(self.condition, Column):
            return target.rows().alias(TARGET).where(self.condition)
        return target.rows(self.condition).alias(TARGET)

    def _rewrite(self) -> FileRewrite:
        return FileRewrite.of(self.metadata, self.storage, str(uuid.uuid4()), by_position=self.by_position)
