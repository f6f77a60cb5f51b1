"""Equal values that a source spells otherwise than the table: upserts and merges take them for equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402

UUID = "00000000-0000-0000-0000-00000000000a"
UUIDS = (UUID.upper(), UUID.replace("-", ""))
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("u", pa.uuid()),
        ("us", pa.list_(pa.struct([("u", pa.uuid()), ("x", pa.float64())]))),
        ("d", pa.decimal128(9, 2)),
        ("st", pa.struct([("d", pa.decimal128(9, 2)), ("x", pa.float64())])),
        ("ds", pa.list_(pa.decimal128(9, 2))),
        ("xs", pa.list_(pa.float64())),
        ("at", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
    ]
)
VALUES = {
    "u": f"'{UUID}'",
    "us": f"array(named_struct('u', '{UUID}', 'x', 1D), NULL)",
    "d": "1.50BD",
    "st": "named_struct('d', 1.50BD, 'x', 0.1D)",
    "ds": "array(1.50BD, NULL)",
    "xs": "array(double(0.1F), -0D)",
    "at": "TIMESTAMP '2024-07-01 12:00:00Z'",
    "name": "'a'",
}
LARGE = "CAST(1.5 AS DECIMAL(20, 5))"
# Rows in which each value is spelled otherwise.
OTHERWISE = [
    {
        "u": f"'{UUIDS[0]}'",
        "us": f"array(named_struct('U', '{UUIDS[0]}', 'x', 1F), NULL)",
        "d": LARGE,
        "ds": f"array({LARGE}, NULL)",
        "at": "TIMESTAMP_NTZ '2024-07-01 14:00:00'",
        "name": "CAST('a' AS CHAR(1))",
    },
    {
        "u": f"X'{UUIDS[1]}'",
        "us": f"array(named_struct('x', 1, 'u', X'{UUIDS[1]}'), NULL)",
        "d": "CAST(1.5 AS DECIMAL(3, 1))",
        "st": f"named_struct('d', {LARGE}, 'x', 0.1D)",
        "xs": "array(0.1F, float(-0D))",
        "at": "TIMESTAMP '2024-07-01 05:00:00-07:00'",
    },
]
FIRST = "1L AS id"
CHANGED = {"u": f"'{UUID[:-1]}B'", "ds": "array(CAST(1.6 AS DECIMAL(20, 5)), NULL)", "xs": "array(0.1F, 0F)"}


@pytest.fixture(scope="module")
def berlin(spark: Any) -> Iterator[Any]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def of(spark: Any, values: dict[str, str], *key: str, rows: str = "range(1)") -> Any:
    columns = [*key, *(f"{v} AS {name}" for name, v in values.items())]
    return spark.sql(f"SELECT {', '.join(columns)} FROM {rows}")


def test_values_that_are_spelled_otherwise_are_no_change(berlin: Any, catalog: icecore.Catalog) -> None:
    """Uuids in capitals, without hyphens and as bytes; decimals of another scale, times in another zone."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(of(berlin, VALUES, FIRST))
    for other in OTHERWISE:
        assert table.spark.upsert(of(berlin, VALUES | other, FIRST), ["id"]).rows_updated == 0
    table.append(of(berlin, VALUES, "2L + id AS id", rows="range(2)"))
    rows = [of(berlin, VALUES | {name: CHANGED[name]}, f"{i}L AS id") for i, name in enumerate(CHANGED, 1)]
    assert table.spark.upsert(rows[0].unionAll(rows[1]).unionAll(rows[2]), ["id"]).rows_updated == 3
    with pytest.raises(ValidationError, match="without loss"):
        table.spark.upsert(of(berlin, VALUES | {"st": "named_struct('d', 1.501BD, 'x', 0.1D)"}, FIRST), ["id"])


UUID_KEY = ("u", pa.uuid(), f"'{UUID}'", [*(f"'{u}'" for u in UUIDS), f"X'{UUIDS[1]}'"])
STRUCT = f"named_struct('u', '{UUIDS[0]}')"
KEYS = [
    ("x", pa.float32(), "0.1F", ["0.1D", "0.1BD"]),
    ("at", pa.timestamp("us", "UTC"), VALUES["at"], ["TIMESTAMP_NTZ '2024-07-01 14:00:00'"]),
    ("d", pa.decimal128(9, 2), "1.5BD", ["CAST(1.5 AS DECIMAL(20, 5))"]),
    ("st", pa.struct([("u", pa.uuid())]), f"named_struct('u', '{UUID}')", [STRUCT]),
]


@pytest.mark.parametrize("keys", [[UUID_KEY], KEYS], ids=["a uuid", "several"])
def test_keys_that_are_spelled_otherwise_match(berlin: Any, catalog: icecore.Catalog, keys: Any) -> None:
    """No row is inserted a second time, and two spellings are one key of a source."""
    names = [key[0] for key in keys]
    table = catalog.create_table("ns.t", pa.schema([*((key[0], key[1]) for key in keys), ("v", pa.int64())]))
    table.append(of(berlin, {**{name: value for name, _, value, _ in keys}, "v": "0L"}))
    for i in range(max(len(key[3]) for key in keys)):
        otherwise = {name: others[i % len(others)] for name, _, _, others in keys}
        result = table.spark.upsert(of(berlin, {**otherwise, "v": f"{i + 1}L"}), names)
        assert (result.rows_updated, result.rows_inserted) == (1, 0), otherwise
    if names == ["u"]:
        value, others = keys[0][2:]
        merge = table.spark.merge(of(berlin, {"u": others[0], "v": "9L"}), ["u"])
        assert merge.when_not_matched_insert_all().commit().rows_inserted == 0
        twice = of(berlin, {"u": value, "v": "1L"}).unionAll(of(berlin, {"u": others[0], "v": "2L"}))
        with pytest.raises(ValidationError, match="more than once"):
            table.spark.upsert(twice, ["u"])
    assert table.refresh().scan().count() == 1
