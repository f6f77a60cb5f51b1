"""Which loaded entries a scan looks into, as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.formats import arrays
from icecore.projections.entry_typing import EntryTyping
from icecore.projections.segment_files import NUMBER_BITS, Segment

Numbers = npt.NDArray[np.int64]


@frozen(eq=False)
class Scope:
    """Manifests by number: in each segment those that a scan looks into, as a condition on `m`; empty means all.

    `first_row_ids` are those that the snapshot's list gives the manifests, in the order of `numbers`, null where none
    is given. `complete` is whether all the manifests that were asked for are loaded.
    """

    parts: tuple[tuple[Segment, str], ...]
    typing: EntryTyping
    numbers: Numbers
    first_row_ids: pa.Array
    complete: bool

    @classmethod
    def of(
        cls,
        segments: Iterable[Segment],
        typing: EntryTyping,
        numbers: Numbers,
        first_row_ids: Sequence[int | None],
        asked: int,
    ) -> Scope:
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        parts = []
        for segment in segments:
            inside = ordered[(ordered >> NUMBER_BITS) == segment.number] - segment.offset
            if len(inside):
                parts.append((segment, _condition(np.unique(inside), len(segment.info.manifests))))
        ids = arrays.optional_numbers(first_row_ids).take(arrays.numbers(order))
        return cls(tuple(parts), typing, ordered, ids, len(numbers) == asked)

    @classmethod
    def nothing(cls, segments: Sequence[Segment], typing: EntryTyping) -> Scope:
        """No manifests at all, with the columns of some segment, which must be."""
        none = np.array([], np.int64)
        some = next(s for s in segments if s.info.columns)
        return cls(((some, "FALSE"),), typing, none, arrays.numbers([]), True)

    @property
    def spec_ids(self) -> frozenset[int]:
        """The partition specs that entries may be of."""
        return frozenset(i for segment, _ in self.parts for i in segment.info.typed.specs)

    def columns(self) -> dict[str, str]:
        """The columns that some segment has, with their DuckDB types; not to be changed."""
        return self._columns

    @cached_property
    def _columns(self) -> dict[str, str]:
        out: dict[str, str] = {}
        for segment, _ in self.parts:
            out = {**segment.usable_columns(self.typing), **out}
        return out

    def relation(self, columns: Iterable[str]) -> str:
        """A query for those columns of the entries, with `m` unique over all segments. There must be a part."""
        names = list(columns)
        selects = []
        for segment, condition in self.parts:
            read = ", ".join([f"m::BIGINT + {segment.offset} AS m", *(segment.column(n, self.typing) for n in names)])
            selects.append(f"SELECT {read} FROM {segment.entries}" + (f" WHERE {condition}" if condition else ""))
        return f"({' UNION ALL '.join(selects)})"

    def row_ids(self, manifests: pa.ChunkedArray, own: pa.ChunkedArray, offsets: pa.ChunkedArray) -> pa.ChunkedArray:
        """First row ids of files: their own, or else what they take from their manifests'."""
        if self.first_row_ids.null_count == len(self.first_row_ids):
            return own
        places = np.searchsorted(self.numbers, arrays.to_numbers(manifests))
        return pc.coalesce(own, pc.add(self.first_row_ids.take(arrays.numbers(places)), offsets))

    def to_arrow(self) -> pa.Table:
        """One row a manifest, as `scan_manifests` has them."""
        return pa.table({"m": arrays.numbers(self.numbers), "first_row_id": self.first_row_ids})


def used_columns(sql: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """The columns that conditions name in quotes."""
    found = {word for text in sql for word in text.split('"')[1::2]}
    return [name for name in known if name in found]


def _condition(inside: Numbers, count: int) -> str:
    """Which manifests of a segment: whichever list is shorter says it."""
    if len(inside) == count:
        return ""
    if inside[-1] - inside[0] + 1 == len(inside):
        return f"m BETWEEN {inside[0]} AND {inside[-1]}"
    if 2 * len(inside) <= count:
        return f"m IN ({', '.join(map(str, inside.tolist()))})"
    outside = np.setdiff1d(np.arange(count), inside)
    return f"m NOT IN ({', '.join(map(str, outside.tolist()))})"
