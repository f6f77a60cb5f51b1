"""The check of the places that a commit gives a table or view, against the rules of the warehouse, in its transaction.

Only what a commit changes is checked: a table that was somewhere before the rules were there may stay.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from attrs import frozen

from icecore.engine.common.location import LocationMapping
from icecore.engine.errors import ForbiddenLocationError, name_text
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.log.table_folders import ANYWHERE, folder_keys, with_those_above
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.properties.data_locations import folder_at
from icecore.engine.properties.table_properties import PATHS
from icecore.engine.storage.location_rules import LocationRules, is_in_or_around, place_keys

State = TableState | ViewState


@frozen
class LocationCheck:
    """The rules of one warehouse, with what is known of the places of its tables."""

    store: EventStore
    models: ReadModels
    rules: LocationRules

    def check(self, before: State | None, after: State) -> None:
        """Raises ForbiddenLocationError for a place that a commit gives a table and that the rules don't allow.

        Called inside of the write transaction, after the event was applied to the read models.
        """
        if before is not None and _given(before) == _given(after):
            return
        known = {} if before is None else _places(before)
        for what, place in _places(after).items():
            if known.get(what) != place:
                self.rules.check_inside(place, what)
                self._check_free(after.stream, place, what)
        if before is None:
            self._check_lists(None, after)

    def check_so_far(self, before: State | None, after: State) -> None:
        """Checks as `check`, but a new table's places not against those of other tables.

        A table in its places now may be dropped by the same commit. Raises ForbiddenLocationError.
        """
        if before is not None:
            self.check(before, after)
            return
        for what, place in _places(after).items():
            self.rules.check_inside(place, what)

    def check_taken(self, before: State | None, after: State) -> None:
        """Checks as `check` a state that another engine gave a table or view, and the lists of its snapshots."""
        if self.rules.is_any:
            self.check(before, after)
            if before is not None:
                self._check_lists(before, after)

    def check_ahead(self, state: State) -> None:
        """Raises ForbiddenLocationError where the commit that creates a table would, as far as is known before it."""
        for what, place in _places(state).items():
            self.rules.check_inside(place, what)
            self._check_apart(state.stream, place, what)

    def check_given_back(self, stream: str) -> None:
        """Raises ForbiddenLocationError where the location of a table to undrop was given to another one meanwhile."""
        head = self.store.row(MODELS, "get_head", stream=stream)
        if head is not None and head["location"] is not None:
            self._check_free(stream, head["location"], "location")

    def check_file(self, state: State, location: str, what: str) -> None:
        """Raises ForbiddenLocationError for a metadata file in another table's place, or where the rules allow none."""
        self.rules.check_inside(location, what)
        if not _is_plainly_own(_places(state).values(), location):
            self._check_apart(state.stream, location, what)

    def is_allowed(self, location: str) -> bool:
        """Whether a new table or view may be at a location, as far as is known now."""
        try:
            self.rules.check_inside(location, "location")
            self._check_apart("", location, "location")
        except ForbiddenLocationError:
            return False
        return True

    def _check_lists(self, before: State | None, after: State) -> None:
        if isinstance(after, TableState):
            allows, mapping, own = self.rules.allowing(), after.location_mapping, _places(after).values()
            for what, path in _listed(after) - _listed(before):
                place = mapping.resolve(path)
                if not (allows(place) and _is_plainly_own(own, place)):
                    self.check_file(after, place, what)

    def _check_free(self, stream: str, place: str, what: str) -> None:
        if self.rules.unique:
            self.models.folders.complete()
            self._check_apart(stream, place, what)

    def _check_apart(self, stream: str, place: str, what: str) -> None:
        if not self.rules.unique:
            return
        mine = place_keys(place)
        for row in self._near(stream, mine | {place}):
            name = self.models.identifier_of(row["stream"])
            # A dropped table is in nobody's way: its files stay, and its place is checked when it is undropped.
            if name is None:
                continue
            if is_in_or_around(mine, place_keys(row["location"], follow=bool(row["is_near"]))):
                raise ForbiddenLocationError(
                    f"the {what} {place!r:.500} is, holds or lies in a place of another table or view",
                    f": {row['location']}, where files of {name_text(name)} are",
                    name[:-1],
                )

    def _near(self, stream: str, places: set[str]) -> list[sqlite3.Row]:
        """The folders of other tables and views that may be one of the places, lie in one or hold one."""
        keys = sorted({key for place in places for key in folder_keys(place)})
        above = sorted(with_those_above(keys) - {ANYWHERE})
        told = {"keys": json.dumps(keys), "above": json.dumps(above), "stream": stream}
        return self.store.rows(MODELS, "folders_near", **told)


def _given(state: State) -> tuple[object, ...]:
    """The values that the places of a table's files follow from."""
    metadata = state.metadata
    found: tuple[object, ...] = (metadata.location, *(metadata.properties.get(p) for p in PATHS))
    if not isinstance(state, TableState):
        return found
    return *found, state.metadata.statistics, state.metadata.partition_statistics, state.location_mapping


def _listed(state: State | None) -> set[tuple[str, str]]:
    """The manifest lists of a table, and the manifests that snapshots of version 1 name without one."""
    snapshots = state.metadata.snapshots if isinstance(state, TableState) else ()
    lists = {("manifest list", s.manifest_list) for s in snapshots if s.manifest_list is not None}
    return lists | {("manifest", m) for s in snapshots if s.manifest_list is None for m in s.manifests or ()}


def _is_plainly_own(places: Iterable[str], location: str) -> bool:
    """Whether a file plainly lies in one of a table's own places: nothing in its path may lead elsewhere."""
    insides = (location.removeprefix(f"{place.rstrip('/')}/") for place in places)
    return any(inside != location and ".." not in inside and "%" not in inside for inside in insides)


def _places(state: State) -> dict[str, str]:
    """The places of a table's files, by what they are called."""
    location, properties = state.metadata.location.rstrip("/"), state.metadata.properties
    mapping = state.location_mapping if isinstance(state, TableState) else LocationMapping()
    found = {"location": location} | {p: folder_at(location, properties[p], "") for p in PATHS if properties.get(p)}
    if isinstance(state, TableState):
        paths = [f.statistics_path for f in state.metadata.statistics]
        paths += [f.statistics_path for f in state.metadata.partition_statistics]
        found |= {f"statistics file, {path!r:.500}, at": path for path in paths}
    mapped = {f"place of {old}": new for old, new in mapping.prefixes}
    return {what: mapping.resolve(place) for what, place in found.items()} | mapped
