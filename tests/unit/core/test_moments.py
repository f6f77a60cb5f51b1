"""Points in time as callers give them, for scans and for the whole catalog (SP8)."""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from core_tables import ids_of, local, make_table, rows, store_of

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms

AT = dt.datetime(2024, 1, 2, 3, 4, 5, 678900, dt.UTC)
MS = 1704164645678


@pytest.mark.parametrize(
    "moment",
    [
        MS,
        AT,
        AT.astimezone(dt.timezone(dt.timedelta(hours=-5))),
        "2024-01-02T03:04:05.678900Z",
        "2024-01-02T05:04:05.678+02:00",
    ],
)
def test_all_spellings_are_the_same_moment(moment: Any) -> None:
    """Fractions of a millisecond are cut off."""
    assert to_epoch_ms(moment, "as_of") == MS


@pytest.fixture(params=["America/New_York", "Asia/Tokyo"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the process runs."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def test_a_time_without_a_zone_is_local(zone: str) -> None:
    """As Python has it: `datetime.now()` is now, wherever the process runs; of pandas, and as text, too."""
    local = dt.datetime.fromtimestamp(MS / 1000)
    assert local.hour == {"America/New_York": 22, "Asia/Tokyo": 12}[zone]
    for spelled in (local, local.isoformat(), str(local), pd.Timestamp(local)):
        assert to_epoch_ms(spelled, "as_of") == MS
    assert to_epoch_ms(pd.Timestamp(AT), "as_of") == MS


def test_an_hour_that_comes_twice_is_the_one_that_it_says() -> None:
    """As `datetime.timestamp()`, which goes by `fold`."""
    zone = ZoneInfo("America/New_York")
    for fold in (0, 1):
        moment = dt.datetime(2024, 11, 3, 1, 30, tzinfo=zone, fold=fold)
        assert to_epoch_ms(moment, "as_of") == moment.timestamp() * 1000
        assert to_epoch_ms(pd.Timestamp(moment), "as_of") == moment.timestamp() * 1000


def _expired(table: icecore.Table, moment: TimestampLike) -> int:
    table.maintenance.expire_snapshots().older_than(moment).commit()
    return len(table.refresh().snapshots())


def _rolled_back(table: icecore.Table, moment: TimestampLike) -> list[int]:
    table.manage_snapshots().rollback_to_timestamp(moment).commit()
    return ids_of(table)


def _archived(catalog: icecore.Catalog, moment: TimestampLike) -> int:
    catalog.archive(before_timestamp=moment)
    return store_of(catalog).archives.last_position


TAKERS: dict[str, tuple[Callable[[icecore.Catalog, icecore.Table, TimestampLike], object], object]] = {
    "scan": (lambda _, t, m: ids_of(t, as_of=m), [1]),
    "at": (lambda c, _, m: c.at(timestamp=m).position, 3),
    "since": (lambda c, _, m: c.log(since=m)["position"].to_pylist(), [4]),
    "until": (lambda c, _, m: c.log(until=m)["position"].to_pylist(), [1, 2, 3]),
    "expire_snapshots": (lambda _, t, m: _expired(t, m), 1),
    "rollback_to_timestamp": (lambda _, t, m: _rolled_back(t, m), [1]),
    "archive": (lambda c, _, m: _archived(c, m), 3),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_every_call_that_takes_a_time_has_the_same_rule(taker: str, zone: str, catalog: icecore.Catalog) -> None:
    """A time between two commits, by its zone and by local time."""
    table = make_table(catalog)
    table.append(rows(1))
    first = table.snapshots()[0].timestamp_ms
    while int(time.time() * 1000) <= first + 1:
        time.sleep(0.001)
    table.append(rows(2))
    take, expected = TAKERS[taker]
    local = dt.datetime.fromtimestamp((first + 1) / 1000)
    assert take(catalog, table, local) == expected, zone
    assert take(catalog, table, local.astimezone(dt.UTC)) == expected


def test_orphan_files_are_those_from_before_a_local_time(zone: str, catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    data = local(table.location()) / "data"
    now = time.time()
    for age, name in ((49, "old.parquet"), (47, "young.parquet")):
        (data / name).touch()
        os.utime(data / name, (now - age * 3600,) * 2)
    found = table.maintenance.remove_orphan_files(dt.datetime.now() - dt.timedelta(hours=48), dry_run=True)
    assert [Path(f).name for f in found.orphan_file_locations] == ["old.parquet"], zone


def test_no_other_module_says_what_a_time_without_a_zone_is() -> None:
    """A rule that stands twice is two rules one day. Default values of columns are no times that a caller gives."""
    root = Path(__file__).parents[3]
    found = [
        str(path.relative_to(root))
        for folder in ("engine", "projections")
        for path in sorted((root / folder).rglob("*.py"))
        if re.search(r"replace\(tzinfo=\w*\.?UTC|\.timestamp\(\)|astimezone\(", path.read_text())
    ]
    assert found == ["engine/expression/timestamps.py", "engine/spec/default_value.py"]


@pytest.mark.parametrize("moment", [True, 1.5, b"x", "yesterday", "", dt.date(2024, 1, 1), 2**63, [1], pd.NaT])
def test_what_is_no_moment_is_named(catalog: icecore.Catalog, moment: Any) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    with pytest.raises(ValidationError, match="as_of"):
        table.scan(as_of=moment)
    with pytest.raises(ValidationError, match="timestamp"):
        catalog.at(timestamp=moment)


def test_scans_and_catalogs_take_every_spelling(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    first = table.snapshots()[0].timestamp_ms
    while int(time.time() * 1000) <= first:
        time.sleep(0.001)
    table.append(rows(2))
    moment = dt.datetime.fromtimestamp(first / 1000, dt.UTC)
    for spelled in (first, moment, moment.isoformat()):
        assert ids_of(table, as_of=spelled) == [1]
        assert ids_of(catalog.at(timestamp=spelled).load_table("ns.t")) == [1]
    assert catalog.at(timestamp=dt.datetime.now(dt.UTC)).position == catalog.position
    with pytest.raises(ValidationError, match="a position or a timestamp"):
        catalog.at(1, timestamp=first)
