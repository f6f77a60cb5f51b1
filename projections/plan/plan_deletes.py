"""The conditions under which a delete file may matter to a data file, beyond sequence number and partition.

A position delete file names its data files by path, so bounds on the path leave most out; an equality delete file may
be left out where the bounds of one of its columns exclude the data file's (Spec: Scan Planning, SP3, SP4, SP6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, frozen

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.entry_arrow import path_keys
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import DELETE_PATH_ID
from icecore.projections.plan.delete_pairs import DeletePairs, numbered
from icecore.projections.plan.lost_values import alike_partitions, losable_fields
from icecore.projections.segments.entry_typing import METRIC_PREFIXES
from icecore.projections.segments.manifest_selection import ManifestSelection

DELETES = "plan/deletes.sql"
ENTRIES = "delete_entries"
PLANNED = "planned_data"
OF_DATA = ("file_path", "sequence_number", "partition_key")
OF_DELETES = (
    "ordinal",
    "status",
    "content",
    "file_format",
    "spec_id",
    "sequence_number",
    "partition_key",
    "referenced_data_file",
    "equality_ids",
)
OF_FILES = (
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "partition_key",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "file_sequence_number",
    "snapshot_id",
    "content",
    "sort_order_id",
    "split_offsets",
    "key_metadata",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
FEW_FILES = 1_000
"""To pair so many data files at most, delete files are chosen by partition and name first, which costs less."""
KEPT_DELETES = 16_384
"""Of so many delete files at most what plans look at is kept from plan to plan."""
PATH_BOUNDS = ((f"lower_{DELETE_PATH_ID}", "above_path_bound"), (f"upper_{DELETE_PATH_ID}", "below_path_bound"))


@frozen
class DeleteKinds:
    """The kinds of delete files among some: `equality_ids` are the columns that equality deletes compare.

    `count` is how many delete files there are.
    """

    vectors: bool
    named: bool
    positions: bool
    equality: bool
    equality_ids: tuple[int, ...]
    count: int

    @classmethod
    def of_query(cls, connection: duckdb.DuckDBPyConnection, deletes: str) -> DeleteKinds:
        """The kinds among the entries of a query in brackets."""
        (row,) = duck.rows(connection, kinds_statement(deletes))
        return cls.of_row(row)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> DeleteKinds:
        """The kinds that the one row of `kinds_statement` tells."""
        vectors, named, positions, equality, ids, count = row
        return cls(vectors, named, positions, equality, tuple(sorted(ids or ())), count)

    def among(self, entries: pa.Table) -> DeleteKinds:
        """The kinds of some of the live delete files."""
        by_position, is_vector = pc.equal(entries["content"], 1), pc.equal(entries["file_format"], "PUFFIN")
        older, is_named = pc.and_not(by_position, is_vector), pc.is_valid(entries["referenced_data_file"])
        kinds = (pc.and_(by_position, is_vector), pc.and_(older, is_named), pc.and_not(older, is_named))
        vectors, named, positions, equality = (pc.any(k).as_py() is True for k in (*kinds, pc.invert(by_position)))
        return DeleteKinds(vectors, named, positions, equality, self.equality_ids, entries.num_rows)

    @property
    def metrics(self) -> list[str]:
        """The columns of bounds and counts that equality deletes and data files are compared by."""
        return [f"{prefix}_{i}" for i in self.equality_ids for prefix in METRIC_PREFIXES]

    def metrics_in(self, columns: Iterable[str]) -> list[str]:
        """The `metrics` that there are among some columns."""
        wanted = frozenset(self.metrics)
        return [c for c in columns if c in wanted]


def kinds_statement(deletes: str) -> str:
    """The statement for the kinds among the entries of a query in brackets."""
    return query(DELETES, "kinds", deletes=deletes)


@define(eq=False)
class LiveDeletes:
    """The live delete files of a scope, `deletes`, for plans of any filter.

    `columns` are the columns of bounds and counts, with their DuckDB types: those that data files need too, and path
    bounds, which are `paths`.
    """

    deletes: ManifestSelection
    kinds: DeleteKinds
    columns: Mapping[str, str]
    paths: Mapping[str, str]
    _kept: DeleteEntries | None = None

    @classmethod
    def of(
        cls, connection: duckdb.DuckDBPyConnection, deletes: ManifestSelection, data: ManifestSelection
    ) -> LiveDeletes:
        """The delete files of `deletes`, for the data files of another scope."""
        kinds = DeleteKinds.of_query(connection, deletes.relation(OF_DELETES))
        known = {**deletes.columns(), **data.columns()}
        columns = {c: known[c] for c in kinds.metrics_in(known)}
        paths = {c: known[c] for c, _ in PATH_BOUNDS if c in known}
        return cls(deletes, kinds, {**columns, **paths}, paths)

    def metrics(self) -> list[str]:
        """The columns of metrics that data files need to be paired with these."""
        return self.kinds.metrics_in(self.columns)

    def entries_for(
        self, connection: duckdb.DuckDBPyConnection, files: pa.Table, metadata: TableMetadata
    ) -> DeleteEntries:
        """Delete files among which are all that apply to some planned data files.

        That are all where they are few, and then kept, or where it is not known which are near.
        """
        if self.kinds.count > KEPT_DELETES:
            if not _are_near_ones_known(files, metadata):
                return self._read(connection)
            with duck.registered(connection, PLANNED, files.select(OF_DATA)):
                near = near_some(PLANNED)
                return self._read(connection, near, duck.used(near, {"unpartitioned": _unpartitioned(metadata)}))
        if self._kept is None:
            self._kept = self._read(connection)
        return self._kept

    def _read(
        self, connection: duckdb.DuckDBPyConnection, near: str = "", parameters: Mapping[str, Any] | None = None
    ) -> DeleteEntries:
        """The delete files in the order of the scope's manifests."""
        names = dict.fromkeys((*OF_DELETES, *OF_FILES, *self.columns))
        statement = live_deletes(self.deletes.relation(names), self.paths, near)
        found = self.deletes.in_list_order(duck.arrow(connection, statement, parameters or {}))
        seen = [n for n in found.column_names if n in OF_DELETES or n not in ("m", *OF_FILES)]
        return DeleteEntries.of(self.kinds, found.select(OF_FILES), numbered(found.select(seen)), self.columns)


def _are_near_ones_known(files: pa.Table, metadata: TableMetadata) -> bool:
    """Whether delete files are chosen by partition and name for some data files: these are few, and no values lost."""
    return files.num_rows <= FEW_FILES and not losable_fields(metadata)


@frozen(eq=False)
class DeleteEntries:
    """Some live delete files: `files` has their columns in a plan, `entries` those for pairing.

    A `number` of the latter is the row. `columns` are those of bounds and counts, with their DuckDB types; `named` has
    the `path_keys` of the data files that vectors and position deletes name.
    """

    kinds: DeleteKinds
    files: pa.Table
    entries: pa.Table
    columns: Mapping[str, str]
    named: pa.ChunkedArray

    @classmethod
    def of(cls, kinds: DeleteKinds, files: pa.Table, entries: pa.Table, columns: Mapping[str, str]) -> DeleteEntries:
        """The delete files with such columns."""
        path, by_position = entries["referenced_data_file"], pc.equal(entries["content"], 1)
        return cls(kinds, files, entries, columns, path_keys(pc.if_else(by_position, path, None)))

    def pairs(self, connection: duckdb.DuckDBPyConnection, files: pa.Table, metadata: TableMetadata) -> DeletePairs:
        """The pairs of rows of `files`, planned data files, and rows of the delete files that apply to them.

        Raises CorruptFileError where a delete file names a data file of another partition (SP7).
        """
        entries, kinds = self.entries, self.kinds
        if _are_near_ones_known(files, metadata):
            entries = self.near(files, metadata)
            kinds = kinds.among(entries)
        if not entries.num_rows:
            return DeletePairs.none()
        data = numbered(files.select([*OF_DATA, *self.kinds.metrics_in(self.columns)]))
        with (
            duck.registered(connection, PLANNED, data),
            duck.registered(connection, ENTRIES, entries),
            pairs_between(connection, PLANNED, ENTRIES, self.columns, kinds, metadata) as (sql, parameters),
        ):
            found = duck.arrow(connection, sql, parameters)
        wrong = found.filter(pc.invert(found["same_partition"])).slice(0, 1)
        if wrong.num_rows:
            delete, file = (t["file_path"][wrong[c][0].as_py()] for t, c in ((self.files, "delete"), (files, "file")))
            raise CorruptFileError(f"{delete} deletes rows of {file}, which is in another partition (SP7)")
        return DeletePairs.from_arrow(found)

    def near(self, files: pa.Table, metadata: TableMetadata) -> pa.Table:
        """The `entries` that can apply to some data files, by the data file that they name or by their partition.

        Partitions must have lost no values.
        """
        near = pc.is_in(self.entries["partition_key"], files["partition_key"].unique())
        if self.kinds.equality:
            unpartitioned = pa.array(_unpartitioned(metadata), self.entries["spec_id"].type)
            everywhere = pc.and_(pc.equal(self.entries["content"], 2), pc.is_in(self.entries["spec_id"], unpartitioned))
            near = pc.or_(near, everywhere)
        if self.kinds.named or self.kinds.vectors:
            is_named = pc.is_in(self.named, path_keys(files["file_path"]).unique())
            near = pc.if_else(pc.is_valid(self.named), is_named, near)
        return self.entries.filter(near)


def _unpartitioned(metadata: TableMetadata) -> list[int]:
    """The ids of the specs without partitions, whose equality deletes apply to all data files (SP6)."""
    return [s.spec_id for s in metadata.partition_specs if s.is_unpartitioned]


@contextmanager
def pairs_between(
    connection: duckdb.DuckDBPyConnection,
    data: str,
    deletes: str,
    columns: Mapping[str, str],
    kinds: DeleteKinds,
    metadata: TableMetadata,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The statement for pairs with its parameters, to be run inside of the block.

    `data` and `deletes` are queries in brackets or tables that have all of the columns, delete files `plain_bounds`
    beside.
    """
    alike = alike_partitions(connection, data, deletes, metadata)
    sql = pairs_statement(data, deletes, columns, kinds, is_by_key=alike is None)
    parameters = duck.used(sql, {"unpartitioned": _unpartitioned(metadata)})
    if alike is None:
        yield sql, parameters
        return
    with duck.registered(connection, "alike_partitions", alike):
        yield sql, parameters


def pairs_statement(data: str, deletes: str, columns: Mapping[str, str], kinds: DeleteKinds, *, is_by_key: bool) -> str:
    """The statement of `pairs_between`; `is_by_key` where partitions are the same just where their keys are equal."""
    part = partial(query, DELETES)
    named = partial(part, named_key=path_key("d.referenced_data_file"), data_key=path_key("data.file_path"))
    same_partition, in_partition = part("equal_keys" if is_by_key else "alike_keys"), "deletes"
    more = ""
    if not is_by_key:
        more, in_partition = part("deletes_by_data_keys"), "deletes_of_alike"
    by_position = [named("named", same_partition=same_partition)] if kinds.named else []
    if kinds.positions:
        by_position.append(part("positions", path_bounds=path_bounds(columns), in_partition=in_partition))
    pairs = []
    if kinds.vectors:
        more += named("vectors", same_partition=same_partition)
        pairs.append(part("each_vector"))
        by_position = [part("without_vector", pairs=duck.union_all(by_position))] if by_position else []
    pairs += by_position
    if kinds.equality:
        bounds = equality_bounds(columns, kinds.equality_ids)
        pairs.append(part("equality", equality_bounds=bounds, in_partition=in_partition))
    found = duck.union_all(pairs or [part("nothing")])
    return part("pairs", data=data, deletes=deletes, more=more, pairs=found)


def live_deletes(entries: str, columns: Mapping[str, str], near: str = "") -> str:
    """A query in brackets for the live delete files among entries that are `near`, with their `plain_bounds`."""
    return f"({query(DELETES, 'live_deletes', deletes=entries, plain_bounds=plain_bounds(columns), near=near)})"


def near_some(data: str) -> str:
    """The end of `live_deletes` for those that can apply to some data files, in a table: see `DeleteEntries.near`."""
    keys = {"named_key": path_key("referenced_data_file"), "data_key": path_key("file_path")}
    return f" {query(DELETES, 'near', data=data, **keys)}"


def path_key(path: str) -> str:
    """The text that is the same for all spellings of a path, as an expression of SQL."""
    return query(DELETES, "path_key", path=path)


def plain_bounds(columns: Mapping[str, str]) -> str:
    """The bounds on paths of `d` without scheme and authority, and those two alone, to be selected too."""
    found = [(c, f"d.{quote(c)}") for c, _ in PATH_BOUNDS if c in columns]
    return "".join(query(DELETES, "plain_bound", column=c, bound=d, plain=_plain(d)) for c, d in found)


def _plain(path: str) -> str:
    return query(DELETES, "plain_path", path=path)


def path_bounds(columns: Mapping[str, str]) -> str:
    """A condition that the path of `data` may lie in the bounds of the position delete file `d`, with `plain_bounds`.

    Writers don't always agree on scheme and authority of one path, so it may lie there with or without them. Where they
    do agree, both ways to compare say the same, and the slow one is left out.
    """
    conditions = [
        query(DELETES, name, column=c, bound=f"d.{quote(c)}", plain=_plain("data.file_path"))
        for c, name in PATH_BOUNDS
        if c in columns
    ]
    return " AND ".join(conditions) or "TRUE"


def equality_bounds(columns: Mapping[str, str], ids: Iterable[int]) -> str:
    """A condition that the equality delete file `d` may delete a row of `data`, by nulls and bounds of its columns."""
    conditions = [
        f"(NOT list_contains(d.equality_ids, {i}) OR {_may_overlap(columns, i)})"
        for i in ids
        if any(f"{prefix}_{i}" in columns for prefix in METRIC_PREFIXES)
    ]
    return " AND ".join(conditions) or "TRUE"


def _may_overlap(columns: Mapping[str, str], field_id: int) -> str:
    """The condition for one column: a null in both may match; otherwise both need values, and ranges that touch.

    What is unknown may match, so every test is for a known reason against it.
    """

    def column(side: str, prefix: str) -> str:
        name = f"{prefix}_{field_id}"
        return f"{side}.{quote(name)}" if name in columns else "NULL"

    d_nulls, f_nulls = column("d", "nulls"), column("data", "nulls")
    d_values, f_values = column("d", "values"), column("data", "values")
    both_null = f"(coalesce({d_nulls}, 1) > 0 AND coalesce({f_nulls}, 1) > 0)"
    apart = " OR ".join(
        (
            f"({f_nulls} = {f_values} AND {d_nulls} = 0)",
            f"({d_nulls} = {d_values} AND {f_nulls} = 0)",
            f"({_no_nans(columns, field_id)} AND {_ranges_apart(columns, field_id)})",
        )
    )
    return f"({both_null} OR NOT coalesce({apart}, FALSE))"


def _ranges_apart(columns: Mapping[str, str], field_id: int) -> str:
    """A condition that the bounds leave no common value.

    Bytes may be UUIDs, which Java orders as two signed longs and the spec as unsigned bytes: see
    `metrics_predicate`. Both agree on the first eight bytes of bounds that are not the wrong way round.
    """
    if not columns.keys() >= {f"lower_{field_id}", f"upper_{field_id}"}:
        return "FALSE"
    lower, upper = quote(f"lower_{field_id}"), quote(f"upper_{field_id}")
    if columns.get(f"lower_{field_id}") != "BLOB":
        return f"(d.{lower} > data.{upper} OR d.{upper} < data.{lower})"

    def first(bound: str) -> str:
        return f"{bound}[1:8]"

    in_order = f"d.{lower} <= d.{upper} AND data.{lower} <= data.{upper}"
    above = f"{first(f'd.{lower}')} > {first(f'data.{upper}')}"
    below = f"{first(f'd.{upper}')} < {first(f'data.{lower}')}"
    return f"({in_order} AND ({above} OR {below}))"


def _no_nans(columns: Mapping[str, str], field_id: int) -> str:
    """A condition that one side has no NaN: NaN lies in no bounds, and deletes a NaN."""
    name = f"nans_{field_id}"
    kind = columns.get(f"lower_{field_id}", "")
    if kind not in ("FLOAT", "DOUBLE"):
        return "TRUE"
    return f"(d.{quote(name)} = 0 OR data.{quote(name)} = 0)" if name in columns else "FALSE"
