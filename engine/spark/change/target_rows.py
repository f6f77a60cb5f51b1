"""The rows of a table that Spark may change, each with its place: the number of its file, and the position in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import Expression
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.read.scan_to_spark import read_tasks
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import FILE, POS, ROW_ID, with_columns
from icecore.engine.storage.file_io import Storage

NUMBER, POSITION, KEPT_ROW_ID = "__icecore_file", "__icecore_at", "__icecore_row_id"
"""The columns of a row's place, and of its row id (RL5)."""
_PATH, _FILE_PATH = "__icecore_row_path", "__icecore_file_path"


@frozen
class TargetRows:
    """The data files of a table that a change may touch; a file's number is its place among them."""

    session: SparkSession
    metadata: TableMetadata
    storage: Storage
    tasks: tuple[FileScanTask, ...]

    def rows(self, row_filter: Expression | None = None) -> DataFrame:
        """The live rows that satisfy the bound filter, with all columns of the table and those of their places."""
        schema = with_columns(
            self.metadata.schema(),
            evolve(FILE, name=_PATH),
            evolve(POS, name=POSITION),
            *([evolve(ROW_ID, name=KEPT_ROW_ID)] if self.has_row_ids else []),
        )
        frame = read_tasks(
            self.session,
            self.tasks,
            projection=schema,
            metadata=self.metadata,
            storage=self.storage,
            filter=row_filter,
        )
        paths = pa.array([t.file.file_path for t in self.tasks], pa.string())
        numbers = pa.array(range(len(self.tasks)), pa.int32())
        # A number goes through shuffles instead of a path.
        files = self.session.createDataFrame(pa.table([paths, numbers], names=[_FILE_PATH, NUMBER]))
        return frame.join(F.broadcast(files), F.col(_PATH) == F.col(_FILE_PATH)).drop(_PATH, _FILE_PATH)

    @property
    def has_row_ids(self) -> bool:
        """Whether rows have ids, which they keep when they are changed (RL6)."""
        return self.metadata.format_version >= 3

    def only(self, numbers: Collection[int]) -> TargetRows:
        """Some of the files, with new numbers."""
        return evolve(self, tasks=tuple(self.tasks[n] for n in sorted(numbers)))

    def paths(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """The paths of files by their numbers."""
        return tuple(self.tasks[n].file.file_path for n in numbers)
