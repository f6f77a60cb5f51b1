"""The parts of PySpark that this package uses; importing it without PySpark says what to install."""

from __future__ import annotations

from icecore.engine.common.optional_packages import needs

with needs("PySpark", "'icecore[spark]'"):
    from pyspark.sql import Column, DataFrame, SparkSession, functions, types

__all__ = ["Column", "DataFrame", "SparkSession", "functions", "types"]
