"""Partition and sort transforms in Spark SQL.

They cluster and sort rows before they are written, and filter by bucket; the partition values that are committed come
from the writer (`engine/data/arrow/arrow_transforms.py`). Spec: Partition Transforms, Appendix B (PT3 to PT5).
"""

from __future__ import annotations

from icecore.engine.errors import ValidationError
from icecore.engine.spark.pyspark_api import Column
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spec.transform import (
    INT_MAX,
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

# Spark's hash(a, b) is murmur3 of b, seeded with the hash of a, which is seeded with 42. The hash of this int is 0, the
# seed that Iceberg starts from.
_SEED_ZERO = -1693959553
_US_PER_DAY = "86400000000L"
_US_PER_HOUR = "3600000000L"
_ZONED = (TimestamptzType, TimestamptzNanoType)


def transform_column(transform: Transform, source: PrimitiveType, value: str) -> Column | None:
    """The transform of a column, exact for every type; None for void.

    `value` is SQL of the column: as DataFrames show it, but a uuid as BINARY.
    Raises ValidationError where the transform isn't known.
    """
    match transform:
        case VoidTransform():
            return None
        case IdentityTransform():
            return F.expr(value)
        case BucketTransform(num_buckets=buckets):
            hashed = _as_hashed(source, value)
            return _bucket_udf(transform, source, value) if hashed is None else F.expr(bucket_sql(hashed, buckets))
        case TruncateTransform(width=width):
            return F.expr(_truncate_sql(source, value, width))
        case YearTransform():
            return F.expr(f"year({_date_sql(source, value)}) - 1970")
        case MonthTransform():
            day = _date_sql(source, value)
            return F.expr(f"(year({day}) - 1970) * 12 + month({day}) - 1")
        case DayTransform():
            return F.expr(f"unix_date({_date_sql(source, value)})")
        case HourTransform():
            return F.expr(_hour_sql(source, value))
        case _:
            raise ValidationError(f"{transform} can't be computed in Spark")


def bucket_sql(hashed: str, buckets: int) -> str:
    """The bucket of a BIGINT, or of BINARY of whole words of 4 bytes (PT4). Null stays null.

    Ints, dates, times and timestamps are hashed as BIGINT.
    """
    return f"IF({hashed} IS NULL, NULL, pmod(hash({_SEED_ZERO}, {hashed}) & {INT_MAX}, {buckets}))"


def _as_hashed(source: PrimitiveType, value: str) -> str | None:
    """A column in a form that Spark hashes as Iceberg does, or None where there is none."""
    match source:
        case IntegerType() | LongType() | TimeType():
            return f"CAST({value} AS BIGINT)"
        case DateType():
            return f"CAST(unix_date({value}) AS BIGINT)"
        case TimestamptzType() | TimestamptzNanoType():
            return f"unix_micros({value})"
        case TimestampType() | TimestampNanoType():
            # Put together from its parts, because every conversion goes through the session's zone.
            days = f"CAST(unix_date(CAST({value} AS DATE)) AS BIGINT) * {_US_PER_DAY}"
            clock = f"(hour({value}) * 3600 + minute({value}) * 60 + extract(SECOND FROM {value})) * 1000000"
            return f"({days} + CAST({clock} AS BIGINT))"
        case UUIDType():
            return value
        case FixedType(length=length) if length % 4 == 0:
            return value
        case _:
            return None


def _bucket_udf(transform: BucketTransform, source: PrimitiveType, value: str) -> Column:
    """Strings, bytes and decimals are hashed in Python: Spark's hash treats bytes after the last word differently."""
    import pyarrow as pa

    def bucket(array):  # type: ignore[no-untyped-def]  # PySpark reads type hints at run time
        from icecore.engine.data.arrow.arrow_transforms import apply_transform
        from icecore.engine.data.write.conform import conform
        from icecore.engine.spec.schema import Schema
        from icecore.engine.spec.types import NestedField

        table = conform(pa.table({"x": array}), Schema((NestedField(1, "x", source),)))
        return apply_transform(transform, source, table.column(0))

    bucket.__annotations__ = {"array": pa.Array, "return": pa.Array}
    return F.arrow_udf(bucket, "int")(F.expr(value))


def _truncate_sql(source: PrimitiveType, value: str, width: int) -> str:
    match source:
        case StringType():
            return f"substring({value}, 1, {width})"
        case BinaryType() | FixedType():
            return f"substring({value}, 1, {width})"
        case DecimalType(scale=scale):
            unit = f"CAST('{width}E-{scale}' AS DECIMAL(38, {scale}))"
            return f"try_subtract({value}, pmod({value}, {unit}))"
        case _:
            # Next to the least value the result is out of range: null keeps such rows together as well.
            return f"try_subtract({value}, pmod({value}, CAST({width} AS {_integer_name(source)})))"


def _integer_name(source: PrimitiveType) -> str:
    return "INT" if isinstance(source, IntegerType) else "BIGINT"


def _date_sql(source: PrimitiveType, value: str) -> str:
    """The date of a date or timestamp; of an instant, its date in UTC."""
    if isinstance(source, _ZONED):
        us = f"unix_micros({value})"
        return f"date_from_unix_date(CAST(({us} - pmod({us}, {_US_PER_DAY})) DIV {_US_PER_DAY} AS INT))"
    return f"CAST({value} AS DATE)"


def _hour_sql(source: PrimitiveType, value: str) -> str:
    if isinstance(source, _ZONED):
        us = f"unix_micros({value})"
        return f"CAST(({us} - pmod({us}, {_US_PER_HOUR})) DIV {_US_PER_HOUR} AS INT)"
    return f"unix_date(CAST({value} AS DATE)) * 24 + hour({value})"
