"""Planned files as a DataFrame of Spark's own Parquet reader, over an index of exactly these files.

No folder is listed, the constants of files are partition columns, and the relation pins the settings that its rows
depend on, so that later changes of these do nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.properties.table_properties import MIB
from icecore.engine.spark.pyspark_api import Column, DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.relation.file_pruning import FilePruning
from icecore.engine.spark.relation.java_classes import keep_rules, planned_relations
from icecore.engine.spark.relation.java_function import JavaFunction
from icecore.engine.spark.relation.plan_bytes import plan_bytes, plan_key

Constants = Mapping[str, tuple[T.DataType, pa.Array]]

# The settings that the rows and values of a file depend on. Defaults of columns need the vectorised reader.
_PINNED = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
# For files of a mounted file system. By default Spark counts 4 MiB for opening one, so a task has 32 files at most.
_LOCAL = {"spark.sql.files.openCostInBytes": str(MIB)}
# The size in bytes from which a plan is sent only after the JVM has said that it lacks it.
LARGE = 32 * 1024
_log = logging.getLogger(__name__)
_sessions: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


@frozen
class ShownColumn:
    """A column that a DataFrame shows: its SQL, the type that it is cast to, if any, and its metadata."""

    name: str
    sql: str
    cast: T.DataType | None
    metadata: Mapping[str, str]

    def of_pyspark(self) -> Column:
        """The column by public API."""
        made = F.expr(self.sql)
        return (made if self.cast is None else made.cast(self.cast)).alias(self.name, metadata=dict(self.metadata))

    def told(self) -> dict[str, Any]:
        """The parts of the column that `PlannedRelations.shown` needs beside its name and type."""
        return {**self.metadata, "sql": self.sql, "cast": self.cast is not None}


@frozen
class PlannedFrames:
    """A maker of DataFrames in one classic session."""

    session: SparkSession
    java: Any

    @classmethod
    def of(cls, session: SparkSession) -> PlannedFrames | None:
        """The maker for a session; None where only public API can be used (see `planned_relations`)."""
        java = planned_relations(session)
        return None if java is None else cls(session, java)

    def frame(
        self,
        paths: pa.Array,
        sizes: pa.Array,
        fields: T.StructType,
        constants: Constants,
        options: Mapping[str, str],
        pruning: FilePruning | None = None,
    ) -> DataFrame:
        """The fields of the files, read with the options, and the constants of each file, in the order of the paths."""
        if pruning is not None:
            from pyspark.java_gateway import ensure_callback_server_started

            ensure_callback_server_started(self.session.sparkContext._gateway)
        is_local = _are_local(paths)
        constant_json = T.StructType([T.StructField(name, t) for name, (t, _) in constants.items()]).json()
        plan = plan_bytes(paths, sizes, constants)
        rest = (
            constant_json,
            fields.json(),
            _lines(options),
            is_local,
            None if pruning is None else JavaFunction(pruning.apply),
            pruning is not None and pruning.is_filtered,
        )
        sessions = self.session._jsparkSession, self._pinned(_LOCAL if is_local else {})
        key = plan_key(plan, constant_json)
        first = plan if len(plan) < LARGE else None
        made = self.java.frame(*sessions, key, first, *rest) or self.java.frame(*sessions, key, plan, *rest)
        if pruning is not None:
            keep_rules(self.session, self.java)
        _log.debug("%d planned files are read by an index of their own", len(paths))
        return DataFrame(made, self.session)

    def shown(self, frame: DataFrame, columns: Sequence[ShownColumn]) -> DataFrame:
        """The columns of a frame, by one call of Java: PySpark makes 18 for each of them."""
        fields = [T.StructField(c.name, T.NullType() if c.cast is None else c.cast, True, c.told()) for c in columns]
        return DataFrame(self.java.shown(frame._jdf, T.StructType(fields).json()), self.session)

    @property
    def position_column(self) -> str:
        """The name of a BIGINT field; in a frame that has it among its fields, it is each row's position in its file.

        The struct `_metadata` has the position too, but is made anew for each row.
        """
        return str(self.java.positionColumn())

    def without_deleted(self, frame: DataFrame, number: str, position: str, bits: bytes) -> DataFrame:
        """The rows of a frame that are not deleted, by its columns of file numbers and of positions in a file.

        `bits` are what `deleted_bits` gives for the files by their numbers.
        """
        number_column, position_column = frame[number], frame[position]
        context = self.session.sparkContext._jsc
        found = self.java.isDeleted(context, number_column._jc, position_column._jc, bits)
        return frame.where(~Column(found))

    def _pinned(self, defaults: Mapping[str, str]) -> Any:
        last = _sessions.get(self.session)
        pinned = self.java.pinnedSession(self.session._jsparkSession, last, _lines(_PINNED), _lines(defaults))
        _sessions[self.session] = pinned
        return pinned


def _are_local(paths: pa.Array) -> bool:
    return bool(pc.all(pc.or_(pc.starts_with(paths, "/"), pc.starts_with(paths, "file:"))).as_py())


def _lines(settings: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={value}" for key, value in settings.items())
