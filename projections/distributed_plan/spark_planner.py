"""Planning by Spark, for tables whose entries one machine should not hold: manifests are expanded in Spark's tasks.

The queries are those of `sql/plan/`, turned into Spark's dialect, the predicate is the one that DuckDB is given, and
the plan is the same. This process has only the manifest list and what is asked for, never the entries.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import AlwaysTrue, Expression
from icecore.engine.expression.sql.fragment import BoundParameters
from icecore.engine.formats import arrays
from icecore.engine.metadata.fold import TableState
from icecore.engine.queries.named_queries import query
from icecore.engine.repository.repository import Repository
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import made_in_tasks
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.schema import Schema
from icecore.projections.distributed_plan.entry_frames import EntryFrames, column_types
from icecore.projections.distributed_plan.spark_dialect import Values, to_spark_sql
from icecore.projections.plan.deletes.delete_bounds import PATH_BOUNDS
from icecore.projections.plan.deletes.delete_kinds import DeleteKinds, kinds_statement
from icecore.projections.plan.deletes.delete_pairs import DeletePairs
from icecore.projections.plan.deletes.live_deletes import OF_DATA, OF_DELETES, OF_FILES
from icecore.projections.plan.deletes.lost_values import any_lost, losable_fields, telling_specs
from icecore.projections.plan.deletes.pair_statement import live_deletes, pairs_statement
from icecore.projections.plan.file_queries import count_files_statement, data_files_statement, partition_columns
from icecore.projections.plan.manifest_pruning import matching_manifests
from icecore.projections.plan.planned_files import EMPTY, PlanCounts, PlannedFiles, coded_residuals
from icecore.projections.plan.planned_manifests import PlannedManifests
from icecore.projections.plan.predicate import plan_predicate
from icecore.projections.plan.scan_plan import DELETE_TYPE, PLAN_SCHEMA, residual_texts
from icecore.projections.segments.entry_typing import EntryTyping

_DELETES = (
    "array<struct<file_path: string, content: int, file_format: string, content_offset: bigint, "
    "content_size_in_bytes: bigint, equality_ids: array<int>>>"
)
_OTHER_PARTITION = " deletes rows of a file in another partition (SP7)"
ENTRIES, DATA, DELETES = "wide_entries", "planned_data", "delete_entries"


@frozen(slots=False)
class SparkPlanner:
    """The planning of one scan by Spark.

    Its jobs raise CorruptFileError or StorageError in their tasks where a manifest can't be read.
    """

    session: SparkSession
    repository: Repository
    state: TableState
    listed: Sequence[ListedManifest]
    bound: Expression
    schema: Schema
    entries: str = "TRUE"
    """A condition in SQL over the entries `e`, without parameters, that a data file has to satisfy too."""

    def planned(self) -> PlannedFiles:
        """The plan, with its files here, as `Planner.plan` makes it.

        Raises ValidationError where the table's files are not written out yet, or a query can't be said in Spark SQL,
        CorruptFileError or StorageError where a manifest can't be read, and CorruptFileError where a delete file names
        a data file of another partition (SP7).
        """
        return self.planned_with_columns(())[0]

    def planned_with_columns(self, names: Iterable[str]) -> tuple[PlannedFiles, pa.Table]:
        """The plan as of `planned`, with the named wide columns that there are, in the order of its files."""
        started = time.perf_counter()
        files, deleting, pairs = EMPTY, EMPTY, DeletePairs.none()
        wanted = [n for n in names if n in self._columns]
        with translated_spark_errors():
            if self._data:
                files = _in_order(self._files(wanted).toArrow())
            if files.num_rows and self._deletes:
                data = self.session.createDataFrame(files.select(["number", *OF_DATA, *self._metrics()]))
                deletes = self._live_deletes().persist()
                try:
                    deleting, pairs = _numbered_pairs(self.session, files, deletes, self._pairs(data, deletes))
                finally:
                    deletes.unpersist()
        columns = files.select([n for n in wanted if n in files.column_names])
        more = ("number", *self._metrics(), *wanted)
        files = files.drop_columns([n for n in dict.fromkeys(more) if n in files.column_names])
        seconds = time.perf_counter() - started
        planned = PlannedFiles(self.state, self.schema, self.bound, files, deleting, pairs, seconds, self._counts)
        return planned, columns

    def frame(self) -> DataFrame:
        """The plan as a DataFrame with the columns of PLAN_SCHEMA, in no order. Nothing of it is brought here.

        Raises ValidationError as `planned`; faults that its jobs find are reported in Spark's own exceptions.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        if not self._data:
            return self.session.createDataFrame([], from_arrow_schema(PLAN_SCHEMA))
        with translated_spark_errors():
            files, deleted = self._files(), None
            if self._deletes:
                # Each kind of delete file is matched with the files: they are computed once, and go with the DataFrame.
                files = files.localCheckpoint(eager=False)
                deleted = self._deletes_of_files(files)
        files = _with_residuals(files, self.bound).withColumnRenamed("sequence_number", "data_sequence_number")
        if deleted is None:
            files = files.withColumn("delete_files", F.lit(None).cast(_DELETES))
        else:
            files = files.join(deleted, files["number"] == deleted["file"], "left")
        none = F.array().cast(_DELETES)
        return files.withColumn("delete_files", F.coalesce("delete_files", none)).select(*PLAN_SCHEMA.names)

    # Manifests

    @cached_property
    def _pruned(self) -> tuple[list[ListedManifest], list[ListedManifest]]:
        """The manifests of data and of delete files that may have any of interest, by their summaries."""
        if self.state.pending:
            raise ValidationError("Spark plans by the table's files, which are not written out: materialize it before")
        kinds = (ManifestContent.DATA, ManifestContent.DELETES)
        parts = [[m for m in self.listed if m.manifest.content is kind] for kind in kinds]
        specs = telling_specs(self.state.metadata)
        with closing(duckdb.connect(":memory:")) as connection:
            data, deletes = (
                matching_manifests(connection, part, self.bound, specs, self.schema, self._typing.schema)
                for part in parts
            )
        return data, deletes

    @property
    def _data(self) -> list[ListedManifest]:
        return self._pruned[0]

    @property
    def _deletes(self) -> list[ListedManifest]:
        return self._pruned[1]

    @cached_property
    def _typing(self) -> EntryTyping:
        return EntryTyping.of(self.state.metadata, self.repository.state(self.state.stream).metadata)

    @cached_property
    def _columns(self) -> dict[str, str]:
        return column_types(self._typing)

    @cached_property
    def _entries(self) -> EntryFrames:
        return EntryFrames(self.session, self._typing, self.repository.storage_of(self.state))

    # Queries

    def _run(self, statement: str, parameters: BoundParameters, **frames: DataFrame) -> DataFrame:
        """The rows of a statement of DuckDB's over DataFrames that it names."""
        text = to_spark_sql(statement, Values(parameters.values, parameters.types), frames)
        return self.session.sql(text, **frames)

    def _files(self, wanted: Iterable[str] = ()) -> DataFrame:
        """The planned data files, with the columns of `metrics`, those that are wanted, and `number`."""
        specs, ids = telling_specs(self.state.metadata), {m.manifest.partition_spec_id for m in self._data}
        predicate = plan_predicate(self.bound, specs, self.schema, self._columns, ids)
        parameters = BoundParameters(typed=False)
        more = tuple(dict.fromkeys(("number", *self._metrics(), *wanted)))
        statement, names = data_files_statement(self._columns, _relation, predicate, parameters, self.entries, more)
        return self._run(statement, parameters, **{ENTRIES: self._entries.of(self._data, names)})

    @cached_property
    def _kinds(self) -> DeleteKinds:
        """The kinds of delete files that there are."""
        entries = self._entries.of(self._deletes, OF_DELETES)
        with translated_spark_errors():
            (row,) = self._run(kinds_statement(ENTRIES), BoundParameters(), **{ENTRIES: entries}).collect()
        return DeleteKinds.of_row(row)

    def _metrics(self) -> list[str]:
        """The columns that equality deletes and data files are compared by."""
        return [c for c in self._kinds.metrics if c in self._columns] if self._deletes else []

    def _live_deletes(self) -> DataFrame:
        paths = {c: self._columns[c] for c, _ in PATH_BOUNDS}
        names = (*OF_DELETES, *OF_FILES, *self._metrics(), *paths)
        entries = self._entries.of(self._deletes, names)
        return self._run(live_deletes(ENTRIES, paths), BoundParameters(), **{ENTRIES: entries})

    def _pairs(self, data: DataFrame, deletes: DataFrame) -> DataFrame:
        """The numbers of data files and of the delete files that apply to them."""
        self._check_keys(data, deletes)
        names = [*self._metrics(), *(c for c, _ in PATH_BOUNDS)]
        columns = {c: self._columns[c] for c in names}
        statement = pairs_statement(DATA, DELETES, columns, self._kinds, is_by_key=True)
        parameters = BoundParameters(typed=False)
        unpartitioned = [s.spec_id for s in self.state.metadata.partition_specs if s.is_unpartitioned]
        parameters.values["unpartitioned"], parameters.types["unpartitioned"] = unpartitioned, "INTEGER[]"
        return self._run(statement, parameters, **{DATA: data, DELETES: deletes})

    def _check_keys(self, data: DataFrame, deletes: DataFrame) -> None:
        """Refuses partitions whose values may have been lost: their keys alone don't tell which are the same."""
        if not losable_fields(self.state.metadata):
            return
        found = [f.select("partition_key").distinct().collect() for f in (data, deletes)]
        if any_lost((bytes(row[0]) for rows in found for row in rows), self.state.metadata):
            raise ValidationError(
                "delete files of partitions whose values another engine may have lost are matched without Spark only"
            )

    def _deletes_of_files(self, files: DataFrame) -> DataFrame:
        """The delete files of each planned data file that has any: its number, `file`, and an array."""
        deletes = self._live_deletes().localCheckpoint(eager=False)
        pairs = self._pairs(files.select("number", *OF_DATA, *self._metrics()), deletes)
        described = F.struct(*(F.col(f.name) for f in DELETE_TYPE)).cast(_DELETES.removeprefix("array<")[:-1])
        known = deletes.select(F.col("number").alias("delete"), described.alias("described"))
        wrong = F.raise_error(F.concat(F.col("described.file_path"), F.lit(_OTHER_PARTITION)))
        right = F.when(F.col("same_partition"), F.col("described")).otherwise(wrong)
        one = F.struct("delete", right.alias("described"))
        found = pairs.join(known, "delete").groupBy("file").agg(F.array_sort(F.collect_list(one)).alias("found"))
        return found.select("file", F.col("found.described").alias("delete_files"))

    def _counts(self, planned: PlannedFiles) -> PlanCounts:
        manifests = PlannedManifests.of(self.listed)
        scanned, rows, left = self._counted() if self._data else (0, 0, 0)
        totals = manifests.totals(added_only=self.entries != "TRUE") or (scanned, rows)
        looked_into = len(self._data) + len(self._deletes)
        return PlanCounts.of(planned, len(self.listed), looked_into, totals, scanned, left)

    def _counted(self) -> tuple[int, int, int]:
        """Live data files in the manifests looked into, their rows, and the files that partition values leave."""
        specs, ids = telling_specs(self.state.metadata), {m.manifest.partition_spec_id for m in self._data}
        columns = partition_columns(self._columns)
        by_partition = plan_predicate(self.bound, specs, self.schema, columns, ids)
        parameters = BoundParameters(typed=False)
        statement, names = count_files_statement(columns, _relation, by_partition, parameters, self.entries)
        with translated_spark_errors():
            (row,) = self._run(statement, parameters, **{ENTRIES: self._entries.of(self._data, names)}).collect()
        return row[0], row[1], row[2]


def _relation(_columns: Iterable[str]) -> str:
    return f"({query('plan/segments.sql', 'all_entries', entries=ENTRIES)})"


def _in_order(rows: pa.Table) -> pa.Table:
    """Rows by their numbers, which have the order of the manifest list."""
    return rows.take(pc.sort_indices(rows["number"]))


def _numbered_pairs(
    session: SparkSession, files: pa.Table, deletes: DataFrame, pairs: DataFrame
) -> tuple[pa.Table, DeletePairs]:
    """The delete files that apply to any of the files, and the pairs by rows. Raises CorruptFileError (SP7)."""
    found = pairs.toArrow()
    used = pa.table({"number": pc.unique(found["delete"])})
    if not used.num_rows:
        return EMPTY, DeletePairs.none()
    wanted = _in_order(deletes.join(F.broadcast(session.createDataFrame(used)), "number").toArrow())
    places = {
        side: np.searchsorted(arrays.to_numbers(table["number"]), arrays.to_numbers(found[side]))
        for side, table in (("file", files), ("delete", wanted))
    }
    wrong = np.flatnonzero(~arrays.to_mask(found["same_partition"]))[:1].tolist()
    for i in wrong:
        delete, file = (t["file_path"][int(places[c][i])].as_py() for t, c in ((wanted, "delete"), (files, "file")))
        raise CorruptFileError(f"{delete} deletes rows of {file}, which is in another partition (SP7)")
    return wanted.select(list(OF_FILES)), DeletePairs(places["file"], places["delete"])


def _with_residuals(files: DataFrame, bound: Expression) -> DataFrame:
    """The files with what is left of the filter for each, as JSON text, which tasks work out."""
    if isinstance(bound, AlwaysTrue):
        (text,) = residual_texts(np.zeros(1, np.int64), [bound]).to_pylist()
        return files.withColumn("residual", F.lit(text))
    bits = [c for c in files.columns if c.startswith(("might_", "all_"))]
    rest = [c for c in files.columns if c not in bits]
    known = files.schema

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            texts = residual_texts(*coded_residuals(table, bound))
            yield from table.select(rest).append_column("residual", texts).to_batches()

    fields = [*(known[c] for c in rest), T.StructField("residual", T.StringType())]
    return made_in_tasks(files, told, T.StructType(fields))
