"""What Spark's tasks make of rows before they are written, without Spark: zones and the ends of time."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.spark_source.session_zone import offsets, session_zone
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
        ("+02:00:01", 2 + 1 / 3600),
    ],
)
def test_zones_are_those_of_java(zone: str, offset: float) -> None:
    """An instant becomes local and the reverse in each zone that Spark can be told."""
    assert hours(times(INSTANT, 0, None), times(LOCAL, 0, None), zone) == [[offset, None], [-offset, None]]


@pytest.mark.parametrize("zone", ["Nowhere", "../x", "+25:00"])
def test_zones_that_are_not_known(zone: str) -> None:
    with pytest.raises(ValidationError, match=r"column 'local'.*not known"):
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


@pytest.mark.parametrize(
    ("local", "utc"),
    [
        ("2037-07-01 12:00", "2037-07-01 16:00"),
        ("2100-07-01 02:30", "2100-07-01 06:30"),
        ("2050-01-01 00:00", "2050-01-01 05:00"),
        # What the clocks skip, and what they show twice.
        ("2050-03-13 02:30", "2050-03-13 07:30"),
        ("2050-11-06 01:30", "2050-11-06 05:30"),
        ("1883-11-18 12:03", "1883-11-18 16:59:02"),
    ],
)
def test_instants_of_local_times_are_spark_s(local: str, utc: str) -> None:
    """Of all years: Arrow itself knows no daylight saving time after 2037."""
    here, there = (pa.array([dt.datetime.fromisoformat(text)], LOCAL) for text in (local, utc))
    found = assigned(pa.RecordBatch.from_arrays([here], names=["at"]), SCHEMA, "America/New_York")
    assert found["at"].cast(LOCAL) == there
    if local != "2050-03-13 02:30":
        back = assigned(pa.RecordBatch.from_arrays([found["at"]], names=["local"]), SCHEMA, "America/New_York")
        assert back["local"] == here


@pytest.mark.parametrize(
    "name", ["Pacific/Apia", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Africa/Monrovia"]
)
@pytest.mark.parametrize("are_local", [True, False])
def test_many_times_have_the_offsets_that_each_has(name: str, are_local: bool) -> None:
    """Also those of years that Python has no dates of: the calendar is the same again after 400 years."""
    zone, random = session_zone(name), np.random.default_rng(7)
    day = dt.timedelta(days=1) // dt.timedelta(microseconds=1)
    times = np.concatenate([random.integers(-150 * 365, 120 * 365, 3000) * day, random.integers(0, 2**52, 3000)])
    times += random.integers(0, day, len(times))
    known = []
    for time in times.tolist():
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=time)
        at = moment.replace(tzinfo=zone) if are_local else moment.replace(tzinfo=dt.UTC).astimezone(zone)
        known.append((at.utcoffset() or dt.timedelta()) // dt.timedelta(microseconds=1))
    assert offsets(times, zone, are_local=are_local).tolist() == known
    near, far = (times[3000:] + n * 146_097 * day for n in (19, 40))
    assert (offsets(near, zone, are_local=are_local) == offsets(far, zone, are_local=are_local)).all()
