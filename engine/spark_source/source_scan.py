"""The scan that the options of a read ask for, and the pin that keeps a DataFrame on one snapshot and schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.errors import NoSuchTableError, ValidationError, name_text
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.scan.changelog import IncrementalChangelogScan
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spec.reserved import CHANGELOG, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.table.table import Table

_OF_CHANGELOG = frozenset(f.name for f in CHANGELOG)
_MOMENTS = ("snapshot-id", "ref", "as-of", "start-snapshot-id")


@frozen
class Pin:
    """The snapshot and the schema that a DataFrame was made of; each query over it reads these."""

    snapshot_id: int | None
    schema_id: int

    @classmethod
    def of(cls, scan: DataScan) -> Pin:
        """The pin of a scan."""
        return cls(None if scan.snapshot is None else scan.snapshot.snapshot_id, scan.schema.schema_id)


def catalog_of(catalog: Catalog, options: SourceOptions) -> Catalog | CatalogAt:
    """The catalog, or as it was at the option `position`. Raises ValidationError."""
    position = options.whole_number("position")
    return catalog if position is None else catalog.at(position)


def table_of(catalog: Catalog | CatalogAt, options: SourceOptions) -> Table:
    """The table of the options. Raises NoSuchTableError, for a view too, which only Spark SQL can read."""
    identifier = options.identifier
    if catalog.view_exists(identifier):
        name = name_text(identifier)
        raise NoSuchTableError(
            f"{name} is a view: read it by icecore.spark.sql, or load_view({name!r}).to_spark(spark)"
        )
    return catalog.load_table(identifier)


def shown_scan(table: Table, options: SourceOptions) -> DataScan:
    """A scan with the columns of the read, and the snapshot that it goes up to; where it starts is looked at later.

    For a stream that goes on from its checkpoint, the start in the options may be gone by now.
    """
    if not options.is_changelog and options.text("start-snapshot-id") is None:
        return scan_of(table, options, options.columns)
    scan = table.scan(selected_fields=options.columns, ref=options.text("branch"))
    end = options.whole_number("end-snapshot-id")
    return scan if end is None else evolve(scan, snapshot=table.metadata.find_snapshot(end))


def scan_of(table: Table, options: SourceOptions, selected: Sequence[str] = ("*",), pin: Pin | None = None) -> DataScan:
    """The scan that the options ask for, of the pinned snapshot where there is a pin.

    Raises ValidationError where the snapshot is chosen twice, NoSuchSnapshotError, ExpressionError.
    """
    chosen = [name for name in _MOMENTS if options.text(name) is not None]
    if len(chosen) > 1:
        raise ValidationError(f"a read takes one of {', '.join(_MOMENTS)}, found {' and '.join(chosen)}")
    row_filter = options.text("filter")
    start, end = options.whole_number("start-snapshot-id"), options.whole_number("end-snapshot-id")
    if start is not None:
        return _pinned(
            table.incremental_append_scan(
                row_filter,
                from_snapshot_id_exclusive=start,
                to_snapshot_id_inclusive=end if pin is None or pin.snapshot_id is None else pin.snapshot_id,
                selected_fields=selected if pin is None else ("*",),
            ),
            table,
            row_filter,
            selected,
            pin,
        )
    if end is not None:
        raise ValidationError("the option 'end-snapshot-id' needs 'start-snapshot-id', which is not read itself")
    scan = table.scan(
        row_filter if pin is None else None,
        selected_fields=selected if pin is None else ("*",),
        snapshot_id=options.whole_number("snapshot-id"),
        ref=options.text("ref"),
        as_of=options.moment("as-of"),
    )
    return _pinned(scan, table, row_filter, selected, pin)


def shown_columns(scan: DataScan, options: SourceOptions) -> Schema:
    """The columns of a read: those of its scan and, where a changelog is asked for, those of changes."""
    return with_columns(scan.projection, *CHANGELOG) if options.is_changelog else scan.projection


def changelog_of(
    table: Table, options: SourceOptions, selected: Sequence[str], pin: Pin | None
) -> IncrementalChangelogScan:
    """The changes that the options ask for, up to the pinned snapshot where there is a pin.

    Raises ValidationError where the options choose one snapshot, and what `incremental_changelog_scan` raises.
    """
    for name in ("snapshot-id", "ref", "as-of"):
        if options.text(name) is not None:
            raise ValidationError(f"a changelog is of what came between two snapshots: it takes no {name!r}")
    end = options.whole_number("end-snapshot-id") if pin is None else pin.snapshot_id
    scan = changes_of(
        table,
        options,
        from_snapshot_id_exclusive=options.whole_number("start-snapshot-id"),
        to_snapshot_id_inclusive=end,
    )
    # A table without snapshots had no changes.
    scan = scan if pin is None or end is not None else evolve(scan, snapshots=())
    return with_columns_of(scan, scan.schema if pin is None else table.metadata.schema_by_id(pin.schema_id), selected)


def changes_of(table: Table, options: SourceOptions, **between: Any) -> IncrementalChangelogScan:
    """The changes between two snapshots, as the options have them. Raises what `incremental_changelog_scan` raises."""
    return table.incremental_changelog_scan(
        options.text("filter"),
        compute_updates=options.flag("compute-updates"),
        identifier_columns=options.names("identifier-columns"),
        **between,
    )


def with_columns_of(
    scan: IncrementalChangelogScan, schema: Schema, selected: Sequence[str]
) -> IncrementalChangelogScan:
    """The changelog with columns of one of the table's schemas. Raises ValidationError for unknown ones."""
    return evolve(scan, schema=schema, selected_fields=tuple(n for n in selected if n not in _OF_CHANGELOG))


def _pinned(scan: DataScan, table: Table, row_filter: str | None, selected: Sequence[str], pin: Pin | None) -> DataScan:
    if pin is None:
        return scan
    schema = table.metadata.schema_by_id(pin.schema_id)
    snapshot = None if pin.snapshot_id is None else table.metadata.find_snapshot(pin.snapshot_id)
    bound = bind(parse_filter(row_filter), schema, scan.case_sensitive)
    return evolve(scan, snapshot=snapshot, schema=schema, row_filter=bound, selected_fields=tuple(selected))
