"""Scans of tables by their names in Spark's SQL: AS OF, and the options of a read, as `format("icecore")` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from icecore.engine.common.text import number_in
from icecore.engine.errors import ValidationError
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_types import schema_to_spark
from icecore.engine.spark_source.source_options import NAMED, SourceOptions
from icecore.engine.spark_source.source_scan import scan_of
from icecore.engine.table.table import Table

_POSITION, _FILTER = "position", "filter"


@frozen
class AsOf:
    """A moment that VERSION AS OF or TIMESTAMP AS OF asks for; with neither it is the current state."""

    version: str | None = None
    micros: int | None = None

    def options(self, table: Table) -> Mapping[str, Any]:
        """The options of a scan: a version is a branch or tag, else the id of a snapshot."""
        if self.micros is not None:
            return {"as_of": self.micros // 1000}
        if self.version is None:
            return {}
        snapshot_id = None if self.version in table.metadata.refs else number_in(self.version)
        return {"ref": self.version} if snapshot_id is None else {"snapshot_id": snapshot_id}


@frozen(eq=False)
class NamedScans:
    """The scans of a table whose columns Spark knows; `table_at` gives the table as of a position of the log."""

    table: Table
    chosen: Mapping[str, Any]
    table_at: Callable[[int], Table]

    def scan(self, selected: Sequence[str], given: Mapping[str, str], session: SparkSession) -> DataScan:
        """The scan of columns that options ask for.

        Raises ValidationError for options that are not known, or that choose a snapshot with other columns, or one
        where AS OF did so already; NoSuchSnapshotError, ExpressionError.
        """
        options = SourceOptions.of(_own(given, session), NAMED)
        if not options.given:
            return self.table.scan(selected_fields=selected, **self.chosen)
        choosing = sorted(options.given.keys() - {_FILTER})
        if self.chosen and choosing:
            raise ValidationError(f"AS OF chooses what is read, so there can't be the option {choosing[0]!r} as well")
        if self.chosen:
            return self.table.scan(options.text(_FILTER), selected_fields=selected, **self.chosen)
        position = options.whole_number(_POSITION)
        table = self.table if position is None else self.table_at(position)
        known, found = (_columns(s) for s in (self.table.scan(), scan_of(table, options)))
        if found != known:
            raise ValidationError(
                f"by {' and '.join(map(repr, choosing))} the table has the columns {found.simpleString()}, by its name "
                f'{known.simpleString()}: VERSION AS OF, TIMESTAMP AS OF and format("icecore") have them as they were'
            )
        return scan_of(table, options, selected)


def check_no_options(given: Mapping[str, str], name: str, session: SparkSession) -> None:
    """Raises ValidationError where a read of a view or metadata table has options."""
    for option in _own(given, session):
        raise ValidationError(f"{name} is no table: read by its name it has no option {option!r}")


def _own(given: Mapping[str, str], session: SparkSession) -> Mapping[str, str]:
    """The options without Spark's own: a version and a time, which were already told with the name."""
    settings = {"spark.sql.timeTravelVersionKey": "versionAsOf", "spark.sql.timeTravelTimestampKey": "timestampAsOf"}
    own = {str(session.conf.get(key, default)).lower() for key, default in settings.items()}
    return {name: value for name, value in given.items() if name.lower() not in own}


def _columns(scan: DataScan) -> T.StructType:
    """The columns of a scan's schema, by names and types."""
    return T.StructType([T.StructField(f.name, f.dataType) for f in schema_to_spark(scan.schema).fields])
