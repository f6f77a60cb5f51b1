"""Candidates for deletion, matched with needed files however their locations are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from icecore.engine.errors import ValidationError
from icecore.engine.storage.listing import LocationIndex, Place


class PrefixMismatchMode(StrEnum):
    """The treatment of a file whose path is needed under another scheme or authority."""

    ERROR = "error"
    IGNORE = "ignore"
    DELETE = "delete"


class Candidates:
    """Locations of files that may be deleted, until something is known to need them."""

    def __init__(self, locations: Iterable[str], places: LocationIndex) -> None:
        self._places = places
        self._files = dict.fromkeys(locations)
        self._by_path: dict[str, list[tuple[Place, str]]] = {}
        self._mismatched: dict[str, str] = {}
        for location in self._files:
            for place in places.of(location):
                self._by_path.setdefault(place.path, []).append((place, location))

    def has(self, location: str) -> bool:
        """Whether nothing is known to need the file."""
        return location in self._files

    def may_go(self, location: str) -> bool:
        """Whether nothing is known to need the file, nor one of the same path under another scheme or authority."""
        return location in self._files and location not in self._mismatched

    def __bool__(self) -> bool:
        return bool(self._files)

    def places_of(self, locations: Iterable[str]) -> set[Place]:
        """All places that the locations may mean."""
        return {place for location in locations for place in self._places.of(location)}

    def all_places(self) -> Iterator[Place]:
        """The places of all candidates, in all spellings, needed ones too."""
        return (place for found in self._by_path.values() for place, _ in found)

    def keep(self, location: str) -> None:
        """Removes a file, however its location is written, from the candidates."""
        for place in self._places.of(location):
            for found, candidate in self._by_path.get(place.path, ()):
                if (found.scheme, found.authority) == (place.scheme, place.authority):
                    self._files.pop(candidate, None)
                else:
                    self._mismatched[candidate] = location

    def keep_within(self, folder: str) -> None:
        """Removes all files in a folder from the candidates."""
        outer = tuple(p.path.rstrip("/") + "/" for p in self._places.of(folder))
        for path, found in self._by_path.items():
            if path.startswith(outer):
                for _, candidate in found:
                    self._files.pop(candidate, None)

    def rest(self, mode: PrefixMismatchMode) -> list[str]:
        """The candidates that nothing references.

        Raises ValidationError for paths referenced under another scheme or authority where the mode is `error`.
        """
        mismatched = {c: needed for c, needed in self._mismatched.items() if c in self._files}
        if mismatched and mode is PrefixMismatchMode.ERROR:
            candidate, needed = next(iter(mismatched.items()))
            raise ValidationError(
                f"{candidate} is needed as {needed}: say by equal_schemes or equal_authorities which of them are the "
                f"same, or what becomes of such files by prefix_mismatch_mode"
            )
        if mode is PrefixMismatchMode.DELETE:
            return list(self._files)
        return [location for location in self._files if location not in mismatched]


def is_within(inner: Place, outer: Place) -> bool:
    """Whether a place is another, or lies in it."""
    same_store = (inner.scheme, inner.authority) == (outer.scheme, outer.authority)
    return same_store and (inner.path.rstrip("/") + "/").startswith(outer.path.rstrip("/") + "/")
