"""The size of the batches in which Spark hands rows to the Python of its tasks.

Spark keeps a batch below `spark.sql.execution.arrow.maxBytesPerBatch` by asking for its size at each row, which takes
longer than filling it. Where the bytes of a row are bounded, a number of rows is the same limit and costs nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from icecore.engine.spark.name_rule import is_plain
from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_sql_text import quote

# The most bytes of all texts of a row. By Spark's own limit of 64 MiB a batch has some 4,000 such rows.
SHORT_TEXT_BYTES = 16 * 1024
_LONG_ROW = "icecore counts no rows as long as this one"
_TEXTS = (T.StringType, T.BinaryType)
_NUMBERS = (
    T.NullType, T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType,
    T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
_NUMBER_BYTES = 17
_NO_LIMIT = 2**31 - 1
_SESSION_CATALOG = "spark_catalog"
_log = logging.getLogger(__name__)


def is_long_row(error: BaseException) -> bool:
    """Whether a job failed by a row that `with_short_rows` refuses."""
    return _LONG_ROW in str(error)


def has_texts(frame: DataFrame) -> bool:
    """Whether rows of the frame have texts or bytes, the length of which the types don't tell."""
    return any(isinstance(t, _TEXTS) for _, t in _leaves(frame.schema))


def can_count(frame: DataFrame) -> bool:
    """Whether rows of the frame are short where their texts are, and can be computed in a copy of their session.

    Frames with an Observation can't, which only the session that made it tells; nor frames with other Python, whose
    rows may be long while the limit is for the session; nor those with functions such as `current_catalog()` where the
    current catalog, which the copy does not know, is not Spark's own.
    """
    session = frame.sparkSession
    java: Any = getattr(session, "_jsparkSession", None)
    kinds = [t for _, t in _leaves(frame.schema)]
    if java is None or not kinds or not all(isinstance(t, _TEXTS + _NUMBERS) for t in kinds):
        return False
    if not _can_be_told(frame.schema):
        return False
    try:
        known = session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        plan = frame._jdf.queryExecution().analyzed()
        unlike = [known.COLLECT_METRICS(), known.PYTHON_UDF(), known.GENERATOR()]
        if session.catalog.currentCatalog() != _SESSION_CATALOG:
            unlike.append(known.CURRENT_LIKE())
        return not any(map(plan.containsPattern, unlike))
    except Exception as e:  # whatever a Spark of another version does
        _log.info("Spark %s measures each batch of rows: %s", session.version, str(e).split("\n\tat ")[0])
        return False


def with_short_rows(frame: DataFrame) -> DataFrame:
    """The frame, whose job fails at a row with more than SHORT_TEXT_BYTES of texts."""
    texts = [path for path, t in _leaves(frame.schema) if isinstance(t, _TEXTS)]
    if not texts:
        return frame
    length = " + ".join(f"coalesce(octet_length({quote(*path)}), 0L)" for path in texts)
    column = texts[0][0]
    is_long = F.expr(f"{length} > {SHORT_TEXT_BYTES}")
    return frame.withColumn(column, F.when(is_long, F.raise_error(F.lit(_LONG_ROW))).otherwise(F.expr(quote(column))))


def in_counted_batches(frame: DataFrame) -> DataFrame:
    """A frame of short rows for one query, whose batches Spark keeps below its limit of bytes by counting rows.

    Its settings are those of a session of its own, a copy of the frame's session as it is now.
    """
    java: Any = frame.sparkSession._jsparkSession
    limit = java.sessionState().conf().arrowMaxBytesPerBatch()
    rows = limit // _row_bytes(frame.schema)
    if rows <= 0 or limit == _NO_LIMIT:
        return frame
    own = java.cloneSession()
    settings = own.sessionState().conf()
    given = settings.arrowMaxRecordsPerBatch()
    settings.setConfString("spark.sql.execution.arrow.maxRecordsPerBatch", str(min(rows, given) if given > 0 else rows))
    settings.setConfString("spark.sql.execution.arrow.maxBytesPerBatch", str(_NO_LIMIT))
    dataset = frame.sparkSession._jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(own, frame._jdf.queryExecution().analyzed()), frame.sparkSession)


@contextlib.contextmanager
def interruptible(session: Any) -> Iterator[None]:
    """A context whose jobs the session's `interruptAll` stops, though a copy of the session runs them."""
    context, tag = session.sparkContext, session._jsparkSession.sessionJobTag()
    if tag in context.getJobTags():
        yield
        return
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)


def _can_be_told(struct: T.StructType) -> bool:
    """Whether SQL can tell the fields inside of structs by their names, whatever the session's settings."""
    inner = [f.dataType for f in struct.fields if isinstance(f.dataType, T.StructType)]
    return all(
        len({n.lower() for n in t.names}) == len(t.names) and all(map(is_plain, t.names)) and _can_be_told(t)
        for t in inner
    )


def _row_bytes(struct: T.StructType) -> int:
    """The most bytes that a short row takes in a batch."""
    leaves = [t for _, t in _leaves(struct)]
    return _NUMBER_BYTES * len(leaves) + SHORT_TEXT_BYTES * any(isinstance(t, _TEXTS) for t in leaves)


def _leaves(struct: T.StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], T.DataType]]:
    """The columns, and fields inside of structs, that are no structs themselves, each with its path of names."""
    for f in struct.fields:
        if isinstance(f.dataType, T.StructType):
            yield from _leaves(f.dataType, (*path, f.name))
        else:
            yield (*path, f.name), f.dataType
