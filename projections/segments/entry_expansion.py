"""Expansion of manifests into the wide entries of a segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from icecore.engine.errors import ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.projections.entries.wide_entries import WideEntries, inherit_sequence_numbers, widen_all
from icecore.projections.segments.entry_table import manifest_key
from icecore.projections.segments.entry_typing import EntryTyping, StoredTypes
from icecore.projections.segments.segment_files import Growing

ROWS_PER_INSERT = 65_536
ROWS_OF_A_MANIFEST = 1_000
"""The number of entries that is assumed where a v1 writer left the counts out."""
NOT_LOADED = frozenset(
    {
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
    }
)
# The columns above that the wide entries are not made of.
NOT_NEEDED = frozenset({"column_sizes"})


def expand(growing: Growing, typing: EntryTyping, manifests: Iterable[tuple[ListedManifest, pa.Table]]) -> None:
    """Appends the entries of manifests, which come with their rows as read; those of one spec next to each other."""
    for batch, listed in runs(manifests):
        _add(growing, typing, batch, listed)


def runs(manifests: Iterable[tuple[ListedManifest, pa.Table]]) -> Iterator[tuple[list[pa.Table], list[ListedManifest]]]:
    """The rows of manifests, in runs of consecutive manifests of one spec, each to be widened at once."""
    batch: list[pa.Table] = []
    listed: list[ListedManifest] = []
    rows = 0
    for each, entries in manifests:
        same_spec = listed and listed[-1].manifest.partition_spec_id == each.manifest.partition_spec_id
        if listed and (rows >= ROWS_PER_INSERT or not same_spec):
            yield batch, listed
            batch, listed, rows = [], [], 0
        batch.append(entries)
        listed.append(each)
        rows += entries.num_rows
    if listed:
        yield batch, listed


def widened(typing: EntryTyping, batch: Sequence[pa.Table], manifests: Sequence[ListedManifest]) -> WideEntries:
    """The wide entries of a run, with what they inherit, except row ids.

    Raises CorruptFileError where a live entry that isn't new lacks its data sequence number, ValidationError where one
    does not fit its partition spec; both name the manifest.
    """
    counts = [b.num_rows for b in batch]
    entries = inherit_sequence_numbers(pa.concat_tables(batch), [m.manifest for m in manifests], counts)
    try:
        return widen_all(entries, counts, schema=typing.schema, specs=typing.specs)
    except ValidationError as e:
        if len(manifests) == 1:
            raise ValidationError(f"{manifests[0].manifest.manifest_path}: {e}") from e
        for one, listed in zip(batch, manifests, strict=True):
            widened(typing, [one], [listed])
        raise


def expected_cells(typing: EntryTyping, manifests: Iterable[ListedManifest]) -> int:
    """The approximate number of values in the wide entries of manifests: metrics are of the first hundred fields."""
    return sum(map(expected_rows, manifests)) * (25 + 5 * min(len(typing.schema.fields), 100))


def expected_rows(listed: ListedManifest) -> int:
    """The number of a manifest's entries by its counts, or an estimate where it has none."""
    m = listed.manifest
    counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count)
    return ROWS_OF_A_MANIFEST if None in counts else sum(c or 0 for c in counts)


def _add(growing: Growing, typing: EntryTyping, batch: Sequence[pa.Table], manifests: Sequence[ListedManifest]) -> None:
    """Appends the entries of manifests of one spec."""
    counts = [b.num_rows for b in batch]
    wide = widened(typing, batch, manifests)
    first = len(growing.info.manifests)
    numbers = np.repeat(np.arange(first, first + len(counts), dtype=np.int32), counts)
    left_out = NOT_LOADED | typing.ambiguous
    columns = [c for c in wide.table.column_names if c not in left_out]
    rows = wide.table.select(columns).append_column("m", pa.array(numbers))
    spec_ids = {m.manifest.partition_spec_id for m in manifests}
    typed = StoredTypes(
        {n: t for n, t in wide.types.items() if n not in left_out},
        wide.unreadable - left_out,
        wide.unknown,
        {i: text for i in spec_ids if (text := typing.fields_of(i)) is not None},
    )
    growing.add(rows, typed, [manifest_key(m) for m in manifests])
