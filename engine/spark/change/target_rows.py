"""The rows of a table that Spark may change, each with its place: its file, and the position in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import Expression
from icecore.engine.spark.change.own_names import own_names, with_own_names
from icecore.engine.spark.name_rule import is_case_sensitive
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.read.scan_to_spark import read_tasks
from icecore.engine.spark.task_frames import arrow_frame
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import FILE, POS, ROW_ID, with_columns
from icecore.engine.storage.file_io import Storage

PATH, NUMBER, POSITION = "__icecore_path", "__icecore_file", "__icecore_at"
"""The columns of a row's place: the path of its file, or instead the file's number, and the position in the file."""
KEPT_ROW_ID = "__icecore_row_id"
"""The column of a row's id (RL5)."""
_FILE_PATH = "__icecore_file_path"
_LOST = "a row of the table is in a file that was not planned"


@frozen
class TargetRows:
    """The data files of a table that a change may touch; a file's number is its place among them."""

    session: SparkSession
    metadata: TableMetadata
    storage: Storage
    tasks: tuple[FileScanTask, ...]

    def rows(self, row_filter: Expression | None = None) -> DataFrame:
        """The live rows that satisfy the bound filter, with all columns of the table, PATH and POSITION."""
        schema = with_columns(
            self.metadata.schema(),
            evolve(FILE, name=PATH),
            evolve(POS, name=POSITION),
            *([evolve(ROW_ID, name=KEPT_ROW_ID)] if self.has_row_ids else []),
        )
        rows = read_tasks(
            self.session,
            self.tasks,
            projection=schema,
            metadata=self.metadata,
            storage=self.storage,
            filter=row_filter,
        )
        return with_own_names(rows, self.own_names)

    @property
    def own_names(self) -> Mapping[str, str]:
        """The second names of columns that need one; `rows` has these columns by both names."""
        columns = [f.name for f in self.metadata.schema().fields]
        return own_names(columns, case_sensitive=is_case_sensitive(self.session))

    def numbered(self, frame: DataFrame) -> DataFrame:
        """The frame with NUMBER in place of PATH, as it shuffles faster; null for a row that is not of the table."""
        paths = pa.array([t.file.file_path for t in self.tasks], pa.string())
        numbers = pa.array(range(len(self.tasks)), pa.int32())
        table = pa.table([paths, numbers], names=[_FILE_PATH, NUMBER])
        # Spark Connect has to be told the types where there are no files.
        files = arrow_frame(self.session, table, f"{_FILE_PATH} STRING, {NUMBER} INT")
        joined = frame.join(F.broadcast(files), F.col(PATH) == F.col(_FILE_PATH), "left")
        found = f"IF({NUMBER} IS NULL AND {PATH} IS NOT NULL, CAST(raise_error('{_LOST}') AS INT), {NUMBER})"
        kept = [c for c in frame.columns if c != PATH]
        return joined.select(*kept, F.expr(found).alias(NUMBER))

    @property
    def has_row_ids(self) -> bool:
        """Whether rows have ids, which they keep when they are changed (RL6)."""
        return self.metadata.format_version >= 3

    def only(self, paths: Collection[str]) -> TargetRows:
        """Some of the files, with new numbers."""
        return evolve(self, tasks=tuple(t for t in self.tasks if t.file.file_path in paths))
