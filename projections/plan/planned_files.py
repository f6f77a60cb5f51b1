"""The result of a plan, as Arrow, and as tasks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen

from icecore.engine.common.bulk_attrs import build_attrs, gc_paused
from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.data.file_columns import FileColumns
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import AlwaysTrue, Expression
from icecore.engine.formats import arrays
from icecore.engine.formats.entry_arrow import partition_types, row_to_file
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.schema import Schema
from icecore.projections.entries.partition_key import partition_of_key
from icecore.projections.plan.deletes.delete_pairs import DeletePairs, Rows
from icecore.projections.plan.residuals import Residuals
from icecore.projections.plan.wide_filters import from_bits

FORMATS = {str(f): f for f in FileFormat}
TASK_COLUMNS = (
    "file_path",
    "file_format",
    "spec_id",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "split_offsets",
    "sort_order_id",
    "first_row_id",
)
# Arrays of nothing: to make them of lists would import pandas, which takes a while.
EMPTY = pa.table(
    {
        "m": pa.nulls(0, pa.int64()),
        "ordinal": pa.nulls(0, pa.int64()),
        "file_path": pa.nulls(0, pa.string()),
        "file_format": pa.nulls(0, pa.string()),
        "spec_id": pa.nulls(0, pa.int32()),
        "record_count": pa.nulls(0, pa.int64()),
        "file_size_in_bytes": pa.nulls(0, pa.int64()),
        "sequence_number": pa.nulls(0, pa.int64()),
        "first_row_id": pa.nulls(0, pa.int64()),
    }
)
Codes = npt.NDArray[np.int64]


@frozen
class PlanCounts:
    """The counts of a plan on its way to its files. Files and records are live data files and their rows."""

    manifests_total: int
    manifests_scanned: int
    files_total: int
    records_total: int
    pruned_by_manifest: int
    pruned_by_partition: int
    pruned_by_metrics: int
    files_planned: int
    records_planned: int
    delete_files_planned: int
    seconds: float

    @classmethod
    def of(
        cls,
        planned: PlannedFiles,
        manifests: int,
        looked_into: int,
        totals: tuple[int, int],
        scanned: int,
        after_partition: int,
    ) -> PlanCounts:
        """The counts of a plan over so many manifests, some of them looked into, with files and rows in `totals`.

        `scanned` are the files in the manifests looked into, of which partition values leave `after_partition`.
        """
        count = planned.files.num_rows
        return cls(
            manifests_total=manifests,
            manifests_scanned=looked_into,
            files_total=totals[0],
            records_total=totals[1],
            pruned_by_manifest=totals[0] - scanned,
            pruned_by_partition=scanned - after_partition,
            pruned_by_metrics=after_partition - count,
            files_planned=count,
            records_planned=records(planned.files),
            delete_files_planned=len(planned.pairs.used_deletes()),
            seconds=planned.seconds,
        )


@define(frozen=True, slots=False)
class PlannedFiles:
    """The result of a plan as Arrow.

    `files` has a row for each planned data file, `deletes` one for each live delete file that may matter, and `pairs`
    says which rows of `deletes` apply to which rows of `files`. `seconds` is the time that planning took.
    """

    state: TableState
    schema: Schema
    bound: Expression
    files: pa.Table = field(repr=False)
    deletes: pa.Table = field(repr=False)
    pairs: DeletePairs = field(repr=False)
    seconds: float
    _count: Callable[[PlannedFiles], PlanCounts] = field(repr=False)

    @lazy_property
    def counts(self) -> PlanCounts:
        """The counts of files left out, by reason. Counted when first asked for: a plan needs none of them."""
        return self._count(self)

    def __getstate__(self) -> dict[str, Any]:
        # Another process can't count.
        return {**self.__dict__, "counts": self.counts, "_count": None}

    def residuals(self) -> list[Expression]:
        """The residual of each file, in the order of `files`."""
        codes, distinct = self.coded_residuals
        return [distinct[c] for c in codes.tolist()]

    @lazy_property
    def coded_residuals(self) -> tuple[Codes, list[Expression]]:
        """The residual of each file, as a place among the distinct ones."""
        return coded_residuals(self.files, self.bound)

    @property
    def are_wholly_wanted(self) -> npt.NDArray[np.bool_]:
        """A mask of the files with neither deletes nor a residual to apply to their rows."""
        codes, distinct = self.coded_residuals
        is_true = np.array([isinstance(r, AlwaysTrue) for r in distinct], np.bool_)
        wanted: npt.NDArray[np.bool_] = is_true[codes] & (self.pairs.counts(self.files.num_rows) == 0)
        return wanted

    @property
    def are_exactly_counted(self) -> npt.NDArray[np.bool_]:
        """A mask of the files whose record counts are the exact numbers of rows that are wanted."""
        # Writers that didn't know a number of records have left -1 behind.
        return self.are_wholly_wanted & (arrays.to_numbers(self.files["record_count"]) >= 0)

    @property
    def exact_count(self) -> int | None:
        """The number of rows where metadata tells it; None where files have to be read for it."""
        if not self.are_exactly_counted.all():
            return None
        return int(arrays.to_numbers(self.files["record_count"]).sum())

    def is_beyond(self, most: int | None) -> bool:
        """Whether there are more files than `most`."""
        return most is not None and self.files.num_rows > most

    def of_rows(self, rows: Rows) -> PlannedFiles:
        """The plan of some of its files alone, each given once."""
        return evolve(self, files=self.files.take(arrays.numbers(rows)), pairs=self.pairs.of_files(rows))

    def deletes_by_file(self) -> tuple[pa.Array, pa.Array]:
        """The delete files of each file: offsets into the second array, which has rows of `deletes`, in order."""
        offsets, rows = self.pairs.by_file(self.files.num_rows)
        return arrays.numbers(offsets, np.int32), arrays.numbers(rows)

    def tasks(self) -> list[FileScanTask]:
        """One task for each file, whole."""
        files = self.files
        if files.num_rows == 0:
            return []
        with gc_paused():
            columns: dict[str, Iterable[Any]] = {n: _values(files, n) for n in TASK_COLUMNS}
            columns["content"] = repeat(DataFileContent.DATA)
            columns["file_format"] = _formats(files["file_format"])
            columns["partition"] = self._partitions()
            made = {
                "file": build_attrs(ContentFile, files.num_rows, columns),
                "delete_files": self._deletes(),
                "residual": self.residuals(),
                "start": repeat(0),
                "length": columns["file_size_in_bytes"],
                "data_sequence_number": [n or 0 for n in _values(files, "sequence_number")],
            }
            return build_attrs(FileScanTask, files.num_rows, made)

    def plain_columns(self) -> FileColumns | None:
        """The files as columns, where they are Parquet without deletes; None else."""
        files = self.files
        if len(self.pairs) or not pc.all(pc.equal(files["file_format"], FileFormat.PARQUET.value)).as_py():
            return None
        return FileColumns(
            files["file_path"].combine_chunks(),
            files["file_size_in_bytes"].combine_chunks(),
            files["spec_id"].combine_chunks(),
            files["first_row_id"].combine_chunks(),
            pc.fill_null(files["sequence_number"].combine_chunks(), 0),
            self._partitions(),
        )

    def _partitions(self) -> list[tuple[Any, ...]]:
        """The partition tuple of each file; each tuple is decoded once, however many files have it.

        Raises ValidationError where a file is of a spec that the table has no more.
        """
        metadata = self.state.metadata
        keys = self.files["partition_key"].combine_chunks().dictionary_encode()
        _, first = np.unique(arrays.to_numbers(keys.indices), return_index=True)
        spec_ids = self.files["spec_id"].take(arrays.numbers(first)).to_pylist()
        types = {i: [t for _, t in partition_types(metadata.spec_by_id(i), metadata.all_fields)] for i in set(spec_ids)}
        distinct = zip(keys.dictionary.to_pylist(), spec_ids, strict=True)
        decoded = [partition_of_key(key, types[spec_id]) for key, spec_id in distinct]
        return [decoded[c] for c in keys.indices.to_pylist()]

    def _deletes(self) -> Sequence[tuple[ContentFile, ...]]:
        if not len(self.pairs):
            return [()] * self.files.num_rows
        offsets, places = (a.to_pylist() for a in self.deletes_by_file())
        used = sorted(set(places))
        rows = self.deletes.take(arrays.numbers(used)).to_pylist()
        of, schema = self.state.metadata.spec_by_id, self.state.metadata.all_fields
        made = {p: row_to_file(r, of(r["spec_id"]), schema) for p, r in zip(used, rows, strict=True)}
        found = [made[p] for p in places]
        return [tuple(found[a:z]) for a, z in itertools.pairwise(offsets)]


def coded_residuals(files: pa.Table, bound: Expression) -> tuple[Codes, list[Expression]]:
    """The residuals of files, by their columns `might_` and `all_`: each file's place among the distinct ones."""
    count = files.num_rows
    if isinstance(bound, AlwaysTrue) or count == 0:
        return np.zeros(count, np.int64), [bound]
    names = [n for n in files.column_names if n.startswith(("might_", "all_"))]
    bits = np.stack([arrays.to_numbers(files[n]) for n in names])
    if (bits == bits[:, :1]).all():
        found, codes = bits[:, :1].T, np.zeros(count, np.int64)
    else:
        found, codes = np.unique(bits.T, axis=0, return_inverse=True)
    distinct, residuals = [], Residuals.of(bound)
    for row in found.tolist():
        might, surely = (
            [v for n, v in zip(names, row, strict=True) if n.startswith(prefix)] for prefix in ("might_", "all_")
        )
        distinct.append(residuals.left(from_bits(might), from_bits(surely)))
    return codes.reshape(-1).astype(np.int64), distinct


def _values(files: pa.Table, name: str) -> list[Any]:
    """A column as Python values, lists as tuples; lists are few and alike, so each different one is made once."""
    column = files[name].combine_chunks()
    if column.null_count == len(column):
        return [None] * len(column)
    if not pa.types.is_list(column.type):
        found: list[Any] = column.to_pylist()
        return found
    offsets = arrays.to_numbers(column.offsets)
    lengths = np.diff(offsets)
    if (lengths == 1).all() and not column.null_count:
        values = column.flatten().to_pylist()
        known = {v: (v,) for v in set(values)}
        return [known[v] for v in values]
    return [None if v is None else tuple(v) for v in column.to_pylist()]


def _formats(column: pa.ChunkedArray) -> list[FileFormat]:
    coded = column.combine_chunks().dictionary_encode()
    formats = [FORMATS.get(f) or FileFormat(f.upper()) for f in coded.dictionary.to_pylist()]
    return [formats[c] for c in coded.indices.to_pylist()]


def records(files: pa.Table) -> int:
    """The rows of files together."""
    return pc.sum(files["record_count"]).as_py() or 0
