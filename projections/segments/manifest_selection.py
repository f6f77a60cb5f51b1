"""The selection of loaded entries that a scan looks into, as SQL, and the manifest of each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from icecore.engine.errors import StorageError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats import arrays
from icecore.engine.queries import duck
from icecore.projections.entries.wide_entries import row_ids
from icecore.projections.segments.entry_typing import EntryTyping
from icecore.projections.segments.segment_files import NUMBER_BITS, Segment

Numbers = npt.NDArray[np.int64]


class StrayEntriesError(StorageError):
    """Loaded entries that are of none of a scan's manifests; loading them anew mends it."""


@frozen(eq=False)
class ManifestSelection:
    """The manifests that a scan looks into, by number: for each segment a condition on `m`.

    `manifests` are all that were asked for. `numbers` are the values of `m` for those loaded, ascending, and `places`
    are their places among `manifests`. Both are of one look-up, so a number stands for the same manifest here as in the
    entries.
    """

    parts: tuple[tuple[Segment, str], ...]
    typing: EntryTyping
    manifests: Sequence[ListedManifest]
    numbers: Numbers
    places: Numbers

    @classmethod
    def of(
        cls,
        segments: Iterable[Segment],
        typing: EntryTyping,
        manifests: Sequence[ListedManifest],
        numbers: Sequence[int | None],
    ) -> ManifestSelection:
        """The selection of manifests; `numbers` has the number of each, None where it is not loaded.

        Raises StrayEntriesError where a number is of none of the segments.
        """
        loaded = np.array([i for i, n in enumerate(numbers) if n is not None], np.int64)
        known = np.array([n for n in numbers if n is not None], np.int64)
        order = np.argsort(known, kind="stable")
        ordered, places = known[order], loaded[order]
        parts, found = [], 0
        for segment in segments:
            inside = ordered[(ordered >> NUMBER_BITS) == segment.number] - segment.offset
            if len(inside):
                # A segment in memory grows, so its manifests that count are always listed.
                count = None if segment.path is None else len(segment.info.manifests)
                parts.append((segment, _condition(np.unique(inside), count)))
                found += len(inside)
        if found < len(ordered):
            raise StrayEntriesError(f"{len(ordered) - found} of {len(ordered)} manifests are of no segment")
        return cls(tuple(parts), typing, manifests, ordered, places)

    @classmethod
    def nothing(cls, segments: Sequence[Segment], typing: EntryTyping) -> ManifestSelection:
        """The selection of no manifests, with the columns of some segment. One must have columns."""
        none = np.array([], np.int64)
        some = next(s for s in segments if s.info.columns)
        return cls(((some, "FALSE"),), typing, (), none, none)

    @property
    def complete(self) -> bool:
        """Whether all the manifests that were asked for are loaded."""
        return len(self.numbers) == len(self.manifests)

    @cached_property
    def first_row_ids(self) -> pa.Array:
        """The first row ids that the list gives the manifests, in the order of `numbers`, null for none."""
        return arrays.optional_numbers([self.manifests[i].manifest.first_row_id for i in self.places.tolist()])

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
        selects = [segment.rows(names, condition, self.typing) for segment, condition in self.parts]
        return f"({duck.union_all(selects)})"

    def found(self, numbers: pa.ChunkedArray) -> Numbers:
        """The places among `numbers` of the values of `m` in some entries.

        Raises StrayEntriesError where entries are of none of these, naming the manifest if it is known.
        """
        wanted = arrays.to_numbers(numbers)
        at: Numbers = np.searchsorted(self.numbers, wanted)
        if len(wanted) and not (len(self.numbers) and (self.numbers.take(at, mode="clip") == wanted).all()):
            strange = wanted[~np.isin(wanted, self.numbers)]
            raise StrayEntriesError(
                f"{len(strange)} of {len(wanted)} entries must be of {len(self.numbers)} manifests, "
                f"found one of {self._name_of(int(strange[0]))}"
            )
        return at

    def _name_of(self, number: int) -> str:
        keys = [s.info.manifests for s, _ in self.parts if s.number == number >> NUMBER_BITS]
        place = number & (1 << NUMBER_BITS) - 1
        return keys[0][place] if keys and place < len(keys[0]) else f"a manifest that is not known, number {number}"

    def places_of(self, numbers: pa.ChunkedArray) -> Numbers:
        """The places among `manifests` of the values of `m` in some entries. Raises StrayEntriesError."""
        return self.places[self.found(numbers)]

    def numbers_at(self, places: pa.ChunkedArray) -> pa.Array:
        """The values of `m` in the entries of the manifests at some places, which are loaded."""
        by_place = np.zeros(len(self.manifests), np.int64)
        by_place[self.places] = self.numbers
        return arrays.numbers(by_place[arrays.to_numbers(places)])

    def in_list_order(self, files: pa.Table) -> pa.Table:
        """Files, which have `m` and `ordinal`, in the order of `manifests`, with their places there for `m`.

        The order in which entries are loaded and merged depends on earlier plans, and must not show: a limit takes the
        first rows of a plan. Raises StrayEntriesError.
        """
        places = self.places_of(files["m"])
        files = files.set_column(files.schema.get_field_index("m"), "m", arrays.numbers(places))
        if files.num_rows < 2:
            return files
        ordinals = arrays.to_numbers(files["ordinal"])
        keys = places * (int(ordinals.max()) + 1) + ordinals
        if (keys[:-1] <= keys[1:]).all():
            return files
        return files.take(arrays.numbers(np.argsort(keys, kind="stable")))

    def row_ids(self, manifests: pa.ChunkedArray, own: pa.ChunkedArray, offsets: pa.ChunkedArray) -> pa.ChunkedArray:
        """First row ids of files, by the numbers of their manifests."""
        firsts = self.first_row_ids
        if firsts.null_count == len(firsts):
            return pa.chunked_array([pa.nulls(len(own), pa.int64())])
        return row_ids(firsts.take(arrays.numbers(self.found(manifests))), own, offsets)

    def to_arrow(self) -> pa.Table:
        """One row a manifest, as `scan_manifests` has them."""
        return pa.table({"m": arrays.numbers(self.numbers), "first_row_id": self.first_row_ids})


def used_columns(sql: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """The columns that conditions name in quotes."""
    found = {word for text in sql for word in text.split('"')[1::2]}
    return [name for name in known if name in found]


def _condition(inside: Numbers, count: int | None) -> str:
    """The condition on `m` for manifests of a segment that has `count`, by the shorter list."""
    if len(inside) == count:
        return "TRUE"
    if inside[-1] - inside[0] + 1 == len(inside):
        return f"m BETWEEN {inside[0]} AND {inside[-1]}"
    if count is None or 2 * len(inside) <= count:
        return f"m IN ({', '.join(map(str, inside.tolist()))})"
    outside = np.setdiff1d(np.arange(count), inside)
    return f"m NOT IN ({', '.join(map(str, outside.tolist()))})"
