"""The public names for Spark: sessions that are ready to read and write Iceberg tables."""

from icecore.engine.spark.session import session

__all__ = ["session"]
