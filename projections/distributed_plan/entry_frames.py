"""The wide entries of manifests as a Spark DataFrame: tasks read the manifests' files and expand them.

One row is one entry, as in a segment (see `projections/entries/wide_entries.py`). `m` is the manifest's place among
those that are planned over, `number` tells entries apart and has their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats import arrays
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.typed_values import arrow_type
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.task_frames import Batches, chunked, mapped
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import parse_primitive
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.decode_entries import decode_manifests
from icecore.projections.entries.wide_entries import BOUND_MAPS, COUNT_MAPS, row_ids
from icecore.projections.segments.duckdb_types import raw_type
from icecore.projections.segments.entry_expansion import NOT_NEEDED, runs, widened
from icecore.projections.segments.entry_typing import METRIC_PREFIXES, EntryTyping

ORDINAL_BITS = 32
MANIFESTS_PER_TASK = 4
_MOST_DIGITS = 38


def column_types(typing: EntryTyping) -> dict[str, str]:
    """The columns that entries may have beside the canonical ones, with their DuckDB types.

    A column that no entry has is null, which means no more to a plan than a missing one.
    """
    out = {}
    for name, text in typing.partitions.items():
        if (kind := raw_type(parse_primitive(text))) is not None:
            out[name] = kind
    for f in typing.schema.fields:
        kind = raw_type(f.field_type)
        for prefix in METRIC_PREFIXES:
            if prefix not in ("lower", "upper"):
                out[f"{prefix}_{f.field_id}"] = "BIGINT"
            elif kind is not None:
                out[f"{prefix}_{f.field_id}"] = kind
    return {**out, "spec_id": "INTEGER", "record_count": "BIGINT"}


@frozen
class EntryFrames:
    """The maker of DataFrames of a table's manifest entries."""

    session: SparkSession
    typing: EntryTyping
    storage: Storage

    def of(self, manifests: Sequence[ListedManifest], columns: Iterable[str]) -> DataFrame:
        """The entries of manifests, whose files tasks read, with some of their columns.

        A job over it raises CorruptFileError or StorageError in its tasks where a manifest can't be read.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        names = list(dict.fromkeys(("m", "number", *columns)))
        typing, schema = _narrowed(self.typing, names), _schema(self.typing, names)
        expansion = _Expansion(self.storage, typing, schema, _left_out(names))
        # Those of one spec next to each other, as `runs` wants them.
        placed = sorted(enumerate(manifests), key=lambda p: p[1].manifest.partition_spec_id)
        items = [(i, evolve(m, manifest=evolve(m.manifest, partitions=None), sources=())) for i, m in placed]
        chunks = chunked(self.session, items, per_chunk=MANIFESTS_PER_TASK)
        return mapped(self.session, chunks, expansion.batches, from_arrow_schema(expansion.schema))


@frozen
class _Expansion:
    """The expansion of manifests, as it is sent to tasks."""

    storage: Storage
    typing: EntryTyping
    schema: pa.Schema
    left_out: frozenset[str]

    def batches(self, placed: list[tuple[int, ListedManifest]]) -> Batches:
        """The entries of manifests, which come with their places."""
        places = {id(m): i for i, m in placed}
        manifests = [m for _, m in placed]
        files = (
            (m.manifest.manifest_path, self.storage.read_bytes(m.manifest.manifest_path), m.manifest.partition_spec_id)
            for m in manifests
        )
        found = decode_manifests(files, self.left_out, self.typing.specs)
        for batch, listed in runs(zip(manifests, found, strict=True)):
            table = widened(self.typing, batch, listed).table
            counts = [b.num_rows for b in batch]
            m = np.repeat(np.array([places[id(each)] for each in listed], np.int64), counts)
            table = table.append_column("m", pa.array(m))
            number = (m << ORDINAL_BITS) + arrays.to_numbers(table["ordinal"])
            table = table.append_column("number", pa.array(number))
            yield from self._shaped(_with_row_ids(table, listed, counts)).to_batches()

    def _shaped(self, table: pa.Table) -> pa.Table:
        columns = [
            table[f.name].cast(f.type) if f.name in table.column_names else pa.nulls(len(table), f.type)
            for f in self.schema
        ]
        return pa.table(columns, schema=self.schema)


def _with_row_ids(table: pa.Table, listed: Sequence[ListedManifest], counts: Sequence[int]) -> pa.Table:
    """The entries with first row ids, by their manifests."""
    firsts = arrays.optional_numbers([each.manifest.first_row_id for each in listed])
    of_each = firsts.take(pa.array(np.repeat(np.arange(len(listed)), counts)))
    index = table.schema.get_field_index("first_row_id")
    return table.set_column(index, "first_row_id", row_ids(of_each, table["first_row_id"], table["row_offset"]))


def _narrowed(typing: EntryTyping, columns: Collection[str]) -> EntryTyping:
    """The typing of some columns alone, and of partitions: metrics of other fields are not decoded."""
    wanted = {int(c.partition("_")[2]) for c in columns if c.rpartition("_")[0] in METRIC_PREFIXES}
    wanted |= {i for s in typing.specs.values() for f in s.fields for i in f.source_ids}
    return evolve(typing, schema=Schema(tuple(f for f in typing.schema.fields if f.field_id in wanted)))


def _left_out(columns: Collection[str]) -> frozenset[str]:
    """The canonical columns that are not decoded: maps of metrics of which no column is wanted."""
    wanted = {c.partition("_")[0] for c in columns if c.rpartition("_")[2].isdigit()}
    return NOT_NEEDED | {column for prefix, column in (BOUND_MAPS | COUNT_MAPS).items() if prefix not in wanted}


def _schema(typing: EntryTyping, columns: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, _arrow_type(typing, name)) for name in columns])


def _arrow_type(typing: EntryTyping, name: str) -> pa.DataType:
    if name in ENTRY_SCHEMA.names:
        return ENTRY_SCHEMA.field(name).type
    if name == "partition_key":
        return pa.binary()
    iceberg_type = typing.type_of(name) if name.startswith(("lower_", "upper_", "part_")) else None
    if iceberg_type is None:
        return pa.int64()
    kind = arrow_type(parse_primitive(iceberg_type))
    if pa.types.is_decimal(kind) and name.startswith("part_"):
        # Truncating the least values of a type gives one digit more.
        return pa.decimal128(min(kind.precision + 1, _MOST_DIGITS), kind.scale)
    return kind
