"""The meaning of names in a query: tables, as of a time too, views, and metadata tables of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, assert_never

import pyarrow as pa
from attrs import evolve, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import names_like, number_in
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import MissingFileError, NoSuchTableError, ValidationError
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.nodes import TRUE
from icecore.engine.query.kept_queries import KeptQueries
from icecore.engine.query.named_tables import Mention
from icecore.engine.query.needed_rows import NeededRows
from icecore.engine.query.source_names import Lookup, NameScope, TableSource, ViewSource, find_source
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.scan.relation.missing_files import with_expiry
from icecore.engine.scan.relation.scan_relation import ScanRelation, scan_relation
from icecore.engine.spec.reserved import FILE, SPEC_ID
from icecore.engine.table.table import Table

METADATA_TABLES = (
    *("snapshots", "history", "refs", "metadata_log_entries", "manifests", "all_manifests"),
    *("entries", "all_entries", "files", "data_files", "delete_files"),
    *("all_files", "all_data_files", "all_delete_files", "partitions", "position_deletes"),
    *("events", "commits", "file_history", "schema_history", "spec_history", "property_history", "ref_history"),
)
"""The tables of `table.inspect`, which stand after the name of their table."""

FEW_FILES, FEW_BYTES = 8, 1 << 20
"""The most files and bytes that this engine reads itself: a DuckDB limited to some files takes longer to make."""


class QueryCatalog(Lookup, Protocol):
    """A catalog, as it is or as it was, whose tables and views can be named."""

    def all_namespaces(self) -> Iterable[Identifier]: ...

    def list_tables(self, namespace: Identifier) -> Iterable[Identifier]: ...

    def list_views(self, namespace: Identifier) -> Iterable[Identifier]: ...

    @property
    def _kept_queries(self) -> KeptQueries | None: ...


@frozen
class TableRows:
    """The rows of a table, by a scan of all of them."""

    scan: DataScan

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return schema_to_arrow(self.scan.projection, with_ids=False)

    def with_metadata(self, names: Sequence[str]) -> TableRows:
        """The rows with metadata columns after their own."""
        return TableRows(self.scan.update(selected_fields=("*", *names)))

    def is_same(self, other: TableRows) -> bool:
        """Whether both are of the same snapshot of a table that nothing was committed to in between."""
        ours, theirs = self.scan, other.scan
        return ours.is_of_same_state(theirs) and ours.snapshot == theirs.snapshot and ours.schema == theirs.schema

    def needed(self, rows: NeededRows) -> DataScan:
        """The scan of the files that can have rows that matter."""
        return self.scan.filtered(rows.condition)

    def relation(self, prefix: str, rows: NeededRows) -> ScanRelation:
        """The relation of the rows of those files. Raises what planning raises."""
        scan = self.needed(rows)
        # A row is compared by DuckDB alone.
        tasks = [t if t.residual == TRUE else evolve(t, residual=TRUE) for t in scan.plan_files() if _is_of(t, rows)]
        is_small = len(tasks) <= FEW_FILES and sum(t.file.file_size_in_bytes for t in tasks) <= FEW_BYTES
        try:
            return scan_relation(self.scan, tasks, prefix, rows.columns, may_read_files=not is_small)
        except MissingFileError as e:
            raise with_expiry(self.scan, e) from e


@frozen(eq=False)
class TableNeed:
    """The rows and columns that a query needs of a table; the relation's names begin with the table's `name` in it.

    `forgotten` is the position at which bounds of the table's files were forgotten last.
    """

    name: str
    rows: TableRows
    needed: NeededRows
    forgotten: str

    @classmethod
    def of(cls, name: str, rows: TableRows, needed: NeededRows) -> TableNeed:
        """The need of a query that is asked now."""
        return cls(name, rows, needed, forgotten_of(rows))

    def relation(self) -> ScanRelation:
        """The relation, planned now. Raises what planning raises."""
        return self.rows.relation(f"{self.name}_of", self.needed)

    def is_same(self, other: TableNeed) -> bool:
        """Whether the relation for one is right for the other."""
        is_alike = (self.name, self.forgotten) == (other.name, other.forgotten) and self.needed == other.needed
        return is_alike and self.rows.is_same(other.rows) and self.rows.scan == other.rows.scan

    def is_of_other_state(self, other: TableNeed) -> bool:
        """Whether both are of one table, but of two states of it, of which queries to come ask for the later one."""
        ours, theirs = self.rows.scan, other.rows.scan
        return ours.metadata.table_uuid == theirs.metadata.table_uuid and not ours.is_of_same_state(theirs)


@frozen
class ArrowRows:
    """The rows of a view or of a metadata table, made when they are asked for."""

    schema: pa.Schema
    read: Callable[[], pa.Table] = field(repr=False)


RowsOf = TableRows | ArrowRows


def forgotten_of(found: RowsOf | ViewSource) -> str:
    """The position at which bounds of a table's files, for plans, were forgotten last; empty for all else."""
    return found.scan.forgotten() if isinstance(found, TableRows) else ""


def is_same(before: RowsOf | ViewSource, now: RowsOf | ViewSource) -> bool:
    """Whether a name still means the rows or the view that it meant; never true of rows that were made already."""
    match before, now:
        case TableRows(), TableRows():
            return before.is_same(now)
        case ViewSource(), ViewSource():
            return before == now
        case _:
            return False


def _is_of(task: FileScanTask, rows: NeededRows) -> bool:
    """Whether rows of a file can matter, by the metadata columns that all of them share."""
    values = {FILE.field_id: task.file.file_path, SPEC_ID.field_id: task.file.spec_id}
    return evaluate(rows.of_file, lambda term: values[term.field.field_id])


def rows_of(
    mention: Mention, scope: NameScope, lookup: Lookup, all_names: Callable[[], Iterable[Identifier]]
) -> RowsOf | ViewSource:
    """The rows that a name in a query means, or the view.

    Raises NoSuchTableError, with names that are like it, NoSuchSnapshotError, and ValidationError for AT after a view.
    """
    try:
        source = find_source(mention.parts, scope, lookup)
    except NoSuchTableError as e:
        found = _metadata_rows(mention, scope, lookup)
        if found is not None:
            return found
        reads_log = "" if len(mention.parts) > 1 else "; the log and the metadata of all tables are read by `sql`"
        raise NoSuchTableError(f"{e}{reads_log}", like=names_like(mention.parts, all_names())) from e
    match source:
        case TableSource(table):
            return TableRows(_scan(table, mention))
        case ViewSource():
            _no_time(mention, "view")
            return source
        case other:
            assert_never(other)


def _metadata_rows(mention: Mention, scope: NameScope, lookup: Lookup) -> ArrowRows | None:
    """The rows of `namespace.table.files` and its like; None where the name is no such thing."""
    *parts, name = mention.parts
    if name.lower() not in METADATA_TABLES or not parts:
        return None
    try:
        source = find_source(tuple(parts), scope, lookup)
    except NoSuchTableError:
        return None
    if not isinstance(source, TableSource):
        return None
    _no_time(mention, "metadata table")
    rows: pa.Table = getattr(source.table.inspect, name.lower())()
    return ArrowRows(rows.schema, lambda: rows)


def _no_time(mention: Mention, what: str) -> None:
    if mention.unit is not None:
        raise ValidationError(f"the query: AT is for tables, and {'.'.join(mention.parts)!r} is a {what}")


def _scan(table: Table, mention: Mention) -> DataScan:
    match mention.unit, mention.value:
        case None, _:
            return table.scan()
        case "VERSION", int(snapshot_id):
            return table.scan(snapshot_id=snapshot_id)
        case "VERSION", str(text):
            said = number_in(text)
            return table.scan(ref=text) if said is None else table.scan(snapshot_id=said)
        case "TIMESTAMP", when if when is not None:
            return table.scan(as_of=_time(when))
        case unit, value:
            raise ValidationError(f"the query: AT takes a snapshot id, a ref or a time, found {unit} => {value!r}")


def _time(value: Any) -> Any:
    """A time as a scan takes it: text, or a datetime."""
    return value if isinstance(value, str) or hasattr(value, "timestamp") else str(value)


def names_in(catalog: QueryCatalog) -> Iterator[Identifier]:
    """The names of all tables and views of a catalog."""
    for namespace in catalog.all_namespaces():
        yield from catalog.list_tables(namespace)
        yield from catalog.list_views(namespace)
