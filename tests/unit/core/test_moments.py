"""Points in time as callers give them, for scans and for the whole catalog (SP8)."""

from __future__ import annotations

import datetime as dt
import os
import time
from typing import Any

import pytest
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.moments import milliseconds_of

AT = dt.datetime(2024, 1, 2, 3, 4, 5, 678900, dt.UTC)
MS = 1704164645678


@pytest.mark.parametrize(
    "moment",
    [
        MS,
        AT,
        AT.astimezone(dt.timezone(dt.timedelta(hours=-5))),
        "2024-01-02T03:04:05.678900Z",
        "2024-01-02 03:04:05.678",
        "2024-01-02T05:04:05.678+02:00",
    ],
)
def test_all_spellings_are_the_same_moment(moment: Any) -> None:
    """Text without a zone is UTC; fractions of a millisecond are cut off."""
    assert milliseconds_of(moment, "as_of") == MS


def test_a_datetime_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python has it: `datetime.now()` is now, wherever the process runs."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert milliseconds_of(dt.datetime(2024, 1, 1, 22, 4, 5, 678000), "as_of") == MS
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
        assert "TZ" not in os.environ


@pytest.mark.parametrize("moment", [True, 1.5, b"x", "yesterday", "", dt.date(2024, 1, 1), 2**63, [1]])
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
