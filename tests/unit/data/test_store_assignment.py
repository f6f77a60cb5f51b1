"""What Spark's tasks make of rows before they are written, without Spark: zones and the ends of time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.spark_source.store_assignment import assigned
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import NestedField, TimestampType, TimestamptzType

SCHEMA = Schema((NestedField(1, "local", TimestampType(), False), NestedField(2, "at", TimestamptzType(), False)))
LOCAL, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
HOUR = 3_600_000_000


def hours(local: pa.Array, at: pa.Array, zone: str) -> list[list[float | None]]:
    """The columns, in hours from 1970."""
    batch = assigned(pa.RecordBatch.from_arrays([local, at], names=["local", "at"]), SCHEMA, zone)
    return [[None if v is None else v / HOUR for v in c.cast(pa.int64()).to_pylist()] for c in batch.columns]


def times(t: pa.DataType, *values: int | None) -> pa.Array:
    return pa.array(values, pa.int64()).cast(t)


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        *((zone, 0) for zone in ("Z", "UTC", "GMT", "UT", "Etc/UTC", "UTC+0")),
        *((zone, 2) for zone in ("+2", "+02", "+02:00", "+0200", "+2:00", "GMT+2", "UTC+02:00", "UT+2", "+02:00:00")),
        *((zone, -3.5) for zone in ("-03:30", "-3:30", "UTC-03:30", "GMT-0330")),
        *((zone, -8) for zone in ("PST", "America/Los_Angeles")),
        *((zone, -5) for zone in ("EST", "Etc/GMT+5")),
        ("JST", 9),
    ],
)
def test_zones_are_those_of_java(zone: str, offset: float) -> None:
    """An instant becomes local and the reverse in each zone that Spark can be told."""
    assert hours(times(INSTANT, 0, None), times(LOCAL, 0, None), zone) == [[offset, None], [-offset, None]]


@pytest.mark.parametrize(("zone", "text"), [("Nowhere", "column 'local'.*not known"), ("+02:00:01", "has seconds")])
def test_zones_that_are_not_known(zone: str, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        hours(times(INSTANT, 0), times(LOCAL, 0), zone)


@pytest.mark.parametrize("zone", ["-12:00", "+14:00"])
@pytest.mark.parametrize("far", [2**63 - 1, -(2**63)])
def test_what_is_too_far_away_is_refused(zone: str, far: int) -> None:
    """Arrow would go on at the other end of time."""
    for local, at in ((times(INSTANT, 0, far), times(LOCAL, 0, 0)), (times(INSTANT, 0, 0), times(LOCAL, 0, far))):
        with pytest.raises(ValidationError, match="too far away"):
            hours(local, at, zone)
    days = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    for local, at in ((days, times(INSTANT, 0)), (times(LOCAL, 0), days)):
        with pytest.raises(ValidationError, match="a date is too far away"):
            hours(local, at, zone)
    same = hours(times(LOCAL, far), times(INSTANT, far), zone)
    assert same == [[far / HOUR], [far / HOUR]]
