"""The JSON of planned files, made by DuckDB from the plan's columns.

Spec: the REST document's FileScanTask, ContentFile and DeleteFile. Partitions and residuals, which many files share,
are made once; the rest is put together in SQL, some thousand files at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb
import numpy as np
import orjson
import pyarrow as pa
from attrs import field, frozen

from icecore.engine.common.fork_safety import Lock
from icecore.engine.expression.json.expression_json import to_json
from icecore.engine.formats import arrays
from icecore.engine.formats.entry_arrow import partition_types
from icecore.engine.formats.typed_values import identity_bytes
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.server.planning.deep_json import any_depth
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.entries.partition_key import partition_of_key
from icecore.projections.plan.planned_files import PlannedFiles
from icecore.projections.stored_plans.scan_task_json import partition_to_json

TASKS = "plan/scan_tasks.sql"
CHUNK = 2_048
DELETES = "deletes_of_scan"
COUNTS = {"values": "value-counts", "nulls": "null-value-counts", "nans": "nan-value-counts"}
BOUNDS = {"lower": "lower-bounds", "upper": "upper-bounds"}
_COMMON = {
    "file_path": pa.string(),
    "file_format": pa.string(),
    "spec_id": pa.int32(),
    "record_count": pa.int64(),
    "file_size_in_bytes": pa.int64(),
    "key_metadata": pa.binary(),
    "split_offsets": pa.list_(pa.int64()),
    "sort_order_id": pa.int32(),
}
_OF_DATA = {**_COMMON, "first_row_id": pa.int64()}
_OF_DELETES = {
    **_COMMON,
    "content": pa.int32(),
    "equality_ids": pa.list_(pa.int32()),
    "referenced_data_file": pa.string(),
    "content_offset": pa.int64(),
    "content_size_in_bytes": pa.int64(),
}


@frozen(eq=False)
class TaskWriter:
    """A writer of planned files as JSON, for any number of threads."""

    _connection: duckdb.DuckDBPyConnection = field(factory=lambda: duckdb.connect(":memory:"))
    _lock: Lock = field(factory=Lock)

    def delete_files(self, planned: PlannedFiles) -> bytes:
        """The delete files that any planned file needs, in their order, with commas between them."""
        used = planned.pairs.used_deletes()
        if not len(used):
            return b""
        deletes = planned.deletes.take(arrays.numbers(used))
        columns = _typed(deletes, _OF_DELETES) | {"partition": _partitions(deletes, planned.state.metadata)}
        return b"".join(self._texts(DELETES, pa.table(columns), query(TASKS, "delete_files", deletes=DELETES)))[1:]

    def tasks(
        self, planned: PlannedFiles, metrics: Mapping[str, pa.Array], row_filter: bytes | None
    ) -> Iterator[bytes]:
        """The tasks of the planned files in pieces, with commas between them.

        Their references to delete files are places in what `delete_files` lists. `metrics` are columns of metrics,
        named as `lower_5`, bounds as bytes. `row_filter` is the filter as the client wrote it: the residual of files
        whose metadata settle no part of it. Raises ExpressionError where a residual has no JSON form.
        """
        if not planned.files.num_rows:
            return iter(())
        columns = _typed(planned.files, _OF_DATA)
        columns["partition"] = _partitions(planned.files, planned.state.metadata)
        columns["residual"] = _residuals(planned, row_filter)
        columns["delete_files"] = _references(planned)
        statement = query(TASKS, "data_tasks", metrics=_metric_texts(list(metrics)))
        return _without_first_comma(self._texts("tasks_of_scan", pa.table(columns | dict(metrics)), statement))

    def close(self) -> None:
        """Closes DuckDB."""
        self._connection.close()

    def _texts(self, name: str, rows: pa.Table, statement: str) -> Iterator[bytes]:
        with self._lock:
            cursor = self._connection.cursor()
        with cursor, duck.registered(cursor, name, rows):
            for batch in duck.batches(cursor, statement, CHUNK):
                yield _bytes_of(batch.column(0))


def metric_columns(columns: pa.Table) -> dict[str, pa.Array]:
    """The metric columns of wide entries as the writer takes them, without columns that have no value."""
    found = {n: columns[n].combine_chunks() for n in columns.column_names if columns[n].null_count < columns.num_rows}
    return {n: identity_bytes(c) if n.split("_")[0] in BOUNDS else c for n, c in found.items()}


def _without_first_comma(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield next(pieces)[1:]
    yield from pieces


def _bytes_of(texts: pa.Array) -> bytes:
    """The texts one after another, as they lie in Arrow's buffer."""
    texts = texts.cast(pa.large_binary())
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return bytes(memoryview(texts.buffers()[2])[offsets[0] : offsets[-1]])


def _typed(rows: pa.Table, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array | pa.ChunkedArray]:
    """The columns in these types; for columns without values DuckDB leaves the type open."""
    empty = rows.num_rows
    return {
        name: pa.nulls(empty, kind) if name not in rows.column_names or rows[name].null_count == empty else rows[name]
        for name, kind in types.items()
    }


def _partitions(rows: pa.Table, metadata: TableMetadata) -> pa.DictionaryArray:
    """The partition of each file as JSON; each is made once, however many files are in it."""
    keys = rows["partition_key"].combine_chunks().dictionary_encode()
    _, first = np.unique(arrays.to_numbers(keys.indices), return_index=True)
    spec_ids = rows["spec_id"].take(arrays.numbers(first)).to_pylist()
    fields = metadata.all_fields
    types = {i: [t for _, t in partition_types(metadata.specs[i], fields)] for i in set(spec_ids)}
    texts = [
        orjson.dumps(partition_to_json(partition_of_key(key, types[spec_id]), types[spec_id])).decode()
        for key, spec_id in zip(keys.dictionary.to_pylist(), spec_ids, strict=True)
    ]
    return pa.DictionaryArray.from_arrays(keys.indices, arrays.texts(texts))


def _residuals(planned: PlannedFiles, row_filter: bytes | None) -> pa.DictionaryArray:
    codes, distinct = planned.coded_residuals
    texts = [
        row_filter.decode() if row_filter is not None and r == planned.bound else any_depth(to_json(r)).decode()
        for r in distinct
    ]
    return pa.DictionaryArray.from_arrays(arrays.numbers(codes, np.int32), arrays.texts(texts))


def _references(planned: PlannedFiles) -> pa.ListArray:
    """The delete files of each data file, as places among the delete files that the plan needs."""
    offsets, places = planned.pairs.by_file(planned.files.num_rows)
    among = np.searchsorted(planned.pairs.used_deletes(), places)
    return pa.ListArray.from_arrays(arrays.numbers(offsets, np.int32), arrays.numbers(among, np.int32))


def _metric_texts(columns: Sequence[str]) -> str:
    """SQL for the maps of metrics, from columns that are named as `lower_5`."""
    return "".join(
        _metric_map(key, [c for c in columns if c.startswith(f"{prefix}_")], text)
        for keys, text in ((COUNTS, "count_text"), (BOUNDS, "bound_text"))
        for prefix, key in keys.items()
    )


def _metric_map(key: str, columns: Sequence[str], text: str) -> str:
    if not columns:
        return ""
    ids = [query(TASKS, "field_with_metric", column=quote(c), id=c.split("_")[1]) for c in columns]
    values = [query(TASKS, text, column=quote(c)) for c in columns]
    return query(TASKS, "metric_map", name=key, fields=", ".join(ids), values=", ".join(values))
