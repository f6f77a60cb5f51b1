"""The parts of PySpark that this package uses; importing it without PySpark says what to install."""

from __future__ import annotations

from icecore.engine.errors import MissingDependencyError

try:
    from pyspark.sql import Column, DataFrame, SparkSession, functions, types
except ImportError as e:
    raise MissingDependencyError("this needs PySpark: pip install 'icecore[spark]'") from e

__all__ = ["Column", "DataFrame", "SparkSession", "functions", "types"]
