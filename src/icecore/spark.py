"""The public names for Spark: sessions that are ready to read and write Iceberg tables, and `format("icecore")`."""

from icecore.engine.spark_source.registration import register, session

__all__ = ["register", "session"]
