"""The public names for Spark: ready sessions, `format("icecore")`, streams, and plans made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from icecore.engine.spark_source.foreach_batch import foreach_batch
from icecore.engine.spark_source.registration import register, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["foreach_batch", "load_plan", "register", "session"]


def load_plan(spark: SparkSession, folder: str | Path) -> DataFrame:
    """The rows of a plan that `scan.export(folder)` wrote, from its files, deletes, filter and schema alone.

    Raises MissingFileError where there is none, CorruptFileError where it is not what was written.
    """
    from icecore.engine.scan import exported_plan

    return exported_plan.load_plan(str(folder)).to_spark(spark)
