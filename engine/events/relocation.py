"""Relocations: how the locations of events are read once the warehouse has another folder.

Events are never changed: those from before a move or a clone name the old folder for ever, and are read with the new
one in its place. So the whole history is of files that are there, whichever folder they were written in. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
from attrs import field, frozen

from icecore.engine.common.location import LocationMapping, local_path
from icecore.engine.common.stored_json import stored_json
from icecore.engine.errors import CorruptLogError

if TYPE_CHECKING:
    import pyarrow as pa

# JSON keys whose values are no locations, and stay as they are even where they look like paths: names, comments of
# columns and commits, and values of rows. A changed name would be another branch, or a column that no file has.
_NO_LOCATIONS = frozenset(
    {
        *("identifier", "namespace", "default-namespace", "ref-name", "name", "removals", "columns"),
        *("from", "to", "folders-outside"),
        *("doc", "summary", "sql"),
        *("initial-default", "write-default"),
    }
)
# These, and keys of files that follow from no event: where data is shared such files stay in place.
_SHARED = _NO_LOCATIONS | {"statistics-path"}


def _pairs(pairs: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((old, new) for old, new in pairs)


@frozen
class Relocation:
    """One move or clone: `source` and `target` are folders as `file://` locations.

    It concerns the events before `position`, which is that of its own event. With `shares_data` the content files stay
    where they are, and only what follows from the log has a new place. `folders` are those outside of `source` that
    tables of a clone write into, with their new places; content files that are there stay.
    """

    position: int
    source: str
    target: str
    shares_data: bool = False
    folders: tuple[tuple[str, str], ...] = field(default=(), converter=_pairs)

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any], position: int) -> Relocation:
        """The relocation of the payload of a move or clone, whose event has that position."""
        folders = tuple(sorted(obj.get("folders-outside", {}).items()))
        return cls(position, obj["from"], obj["to"], obj.get("shares-data", False), folders)

    def mapping(self) -> LocationMapping:
        """The mapping of locations in the old folders, however they are written, to the new ones."""
        return _mapping(((self.source, self.target), *self.folders))

    def content_mapping(self) -> LocationMapping:
        """The mapping of locations of content files to the new folder; empty where they stay."""
        return _mapping(() if self.shares_data else ((self.source, self.target),))


@frozen
class Relocations:
    """The relocations that an event has yet to be read with, oldest first."""

    steps: tuple[Relocation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    @classmethod
    def of(cls, text: str | None) -> Relocations:
        """The relocations of their JSON; none where there is none. Raises CorruptLogError where it can't be read."""
        if not text:
            return cls()
        try:
            return cls(tuple(Relocation(*step) for step in stored_json(text, list, "the note of relocations")))
        except (TypeError, ValueError) as e:
            raise CorruptLogError(f"the note of relocations can't be read: {e}") from e

    def to_json(self) -> str:
        return orjson.dumps([(s.position, s.source, s.target, s.shares_data, s.folders) for s in self.steps]).decode()

    def with_step(self, step: Relocation) -> Relocations:
        """These and one more, in place of one with the same position."""
        others = (s for s in self.steps if s.position != step.position)
        return Relocations(tuple(sorted((*others, step), key=lambda s: s.position)))

    def since(self, position: int) -> Relocations:
        """The relocations that the event at a position has to be read with."""
        if not self.steps or self.steps[-1].position <= position:
            return NO_RELOCATIONS
        return Relocations(tuple(s for s in self.steps if s.position > position))

    def location(self, location: str) -> str:
        """A location that is no content file's, as it is now."""
        for step in self.steps:
            location = step.mapping().resolve(location)
        return location

    def value(self, value: Any) -> Any:
        """A JSON value in which each location of an old folder is one of the new folder."""
        for step in self.steps:
            value = mapped_value(value, step.mapping(), _SHARED if step.shares_data else _NO_LOCATIONS)
        return value

    def entries(self, entries: pa.Table) -> pa.Table:
        """Canonical entries with the paths of their files as they are now."""
        from icecore.engine.events.relocated_entries import moved_entries

        for step in self.steps:
            if not step.shares_data:
                entries = moved_entries(entries, step.content_mapping())
        return entries


NO_RELOCATIONS = Relocations()


@lru_cache(maxsize=100)
def _mapping(folders: tuple[tuple[str, str], ...]) -> LocationMapping:
    return LocationMapping.of({k: v for old, new in folders for k, v in moved_prefixes(old, new).items()})


def moved_prefixes(old: str, new: str) -> dict[str, str]:
    """The prefixes of locations, in all ways of writing them, that lead from one folder to another, which is local."""
    was, now = local_path(old), local_path(new)
    assert now is not None, "a warehouse lies on a local disk"
    if was is None:
        return {old: new}
    return {f"{scheme}{was}": f"{scheme}{now}" for scheme in ("file://", "file:", "")}


def mapped_value(value: Any, mapping: LocationMapping, left_out: frozenset[str] = _NO_LOCATIONS) -> Any:
    """A JSON value in which each string that is a location is mapped, except at the keys in `left_out`."""
    if isinstance(value, str):
        return mapping.resolve(value)
    if isinstance(value, list):
        return [mapped_value(v, mapping, left_out) for v in value]
    if isinstance(value, dict):
        return {k: v if k in left_out else mapped_value(v, mapping, left_out) for k, v in value.items()}
    return value
