"""The folders of each table's files, so that a deletion checks only the tables that share one.

A table's own location is one, and covers what lies in it; there is another one only for each place outside of it that
an event names files in, as where files of other tables were added. For files that only manifests of other engines name
the log does not know the folder: such a table is `ANYWHERE`.

Rows are kept up with each event. Only a purge removes folders: one that has no file any more costs a needless look,
and no more. `known_up_to` says how far the rows are whole; what an earlier release wrote after that is `ANYWHERE` until
somebody asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from icecore.engine.common.location import folded, local_path
from icecore.engine.common.text import number_in
from icecore.engine.errors import IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.events.event_facts import given_locations, given_properties, named_files, parents_of_added
from icecore.engine.events.manifest_changes import ManifestChanges
from icecore.engine.events.relocated_manifests import RelocatedManifests
from icecore.engine.log.store import FOLDERS_KNOWN, MODELS, EventStore
from icecore.engine.properties.data_locations import folder_at
from icecore.engine.properties.table_properties import PATHS

if TYPE_CHECKING:
    import pyarrow as pa

Changes: TypeAlias = Mapping[int, ManifestChanges]
NOTED = "table-folders-of/"
ANYWHERE = ""
"""The folder that holds all others."""
MOST_AT_ONCE = 32
"""The most folders that are noted for one commit; with more its table is `ANYWHERE`."""
_FOREIGN = (ev.TABLE_REGISTERED, ev.TABLE_ADOPTED, ev.TABLE_RESTORED)
_OF_VIEWS = (ev.VIEW_CREATED, ev.VIEW_REGISTERED, ev.VIEW_ADOPTED, ev.VIEW_COMMITTED)
_WITHOUT_CONTENT = (*_FOREIGN, *_OF_VIEWS)
_STEPS_OUT = re.compile("/[.][.]/|%2[eE]")
_NAME_NO_FILE = (
    *(*ev.ABOUT_FILES, ev.TABLE_RENAMED, ev.TABLE_DROPPED, ev.TABLE_UNDROPPED),
    *(ev.VIEW_RENAMED, ev.VIEW_DROPPED, ev.VIEW_UNDROPPED, ev.VIEW_RELOCATED),
)


def folder_keys(location: str) -> set[str]:
    """The keys under which a folder is looked up: its path as it is written, and percent-decoded.

    Links are not followed, since a replay must give the same; schemes and authorities are left out, and a path that is
    not local begins with two slashes. The key of a partition's folder is that of the folder above the partitions.
    """
    return {_key(text) for text in {location, unquote(location)}}


def key_of_path(path: str, *, is_local: bool) -> str:
    """The key of a path that is folded already."""
    key = ("" if is_local else "/") + path.rstrip("/")
    return _above_partitions(key)


def with_those_above(keys: Iterable[str]) -> set[str]:
    """The keys of folders and of all that hold them, up to `ANYWHERE`."""
    out = {ANYWHERE}
    for key in keys:
        while key not in out:
            out.add(key)
            key = key.rpartition("/")[0]
    return out


def _key(location: str) -> str:
    path = local_path(location)
    if path is not None:
        return key_of_path(folded(os.path.abspath(path)), is_local=True)
    inner = location.partition("://")[2].partition("/")[2]
    return key_of_path(folded("/" + inner.strip("/")), is_local=False)


def _above_partitions(folder: str) -> str:
    found = folder.find("=")
    return folder if found < 0 else folder[: folder.rfind("/", 0, found)]


class TableFolders:
    """The read model of the folders of one log's tables and views."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    @property
    def known_up_to(self) -> int:
        """The position up to which no folder is missing."""
        return number_in(self._store.warehouse_value(FOLDERS_KNOWN) or "") or 0

    def begin(self) -> None:
        """Marks the folders of a log without events as whole, inside of a write transaction."""
        self._run("put_warehouse", key=FOLDERS_KNOWN, value="0")
        self._run("forget_noted_folders")

    def apply(self, event: Event, changes: Changes, entries: pa.Table | None = None) -> None:
        """Applies one event, inside of a write transaction. `entries` are its content files, where they are at hand.

        `changes` are its `changes_of`. Called after the stream's head has it.
        """
        if event.kind == ev.TABLE_PURGED:
            self._run("forget_folders", stream=event.stream)
        elif event.stream != ev.CATALOG_STREAM and event.kind not in _NAME_NO_FILE:
            self._add(event, changes, entries)
        self._run("advance_folders", key=FOLDERS_KNOWN, position=event.position)

    def complete(self) -> None:
        """Notes `ANYWHERE` for events that an earlier release wrote, inside of a write transaction."""
        if (known := self.known_up_to) < (head := self._store.head()[0]):
            self._run("add_unknown_folders", known=known)
            self._run("put_warehouse", key=FOLDERS_KNOWN, value=str(head))

    def note(self, stream: str, position: int, locations: Iterable[str]) -> None:
        """Notes the folders of all files that a table led to at a position or later; inside of a write transaction."""
        known = self._known(stream)
        for location in locations:
            self._put(stream, position, location, known)
        self._run("end_anywhere", stream=stream, position=position)
        self._run("put_warehouse", key=NOTED + stream, value=str(position))

    def noted_at(self, stream: str) -> int:
        """The position as of which the folders of a table were found out; 0 where they were not."""
        return number_in(self._store.warehouse_value(NOTED + stream) or "") or 0

    def _add(self, event: Event, changes: Changes, entries: pa.Table | None) -> None:
        folders = list(self._folders(event))
        named, is_told = _named(event, changes)
        has_entries = event.kind not in _WITHOUT_CONTENT and (entries is not None or event.content_sha256 is not None)
        if is_told and not folders and not named and not has_entries:
            return
        known = self._known(event.stream)
        for folder in folders:
            self._put(event.stream, event.position, folder, known)
        prefixes = tuple(f"{location.rstrip('/')}/" for location in known.values())
        paths = [path for path in named if not path.startswith(prefixes) or _steps_out(path)]
        if has_entries:
            try:
                paths += _outside(self._store.entries(event.position) if entries is None else entries, prefixes)
            except IcecoreError:
                is_told = False
        outer = {_above_partitions(path.rpartition("/")[0]) for path in paths}
        if is_told and len(outer) <= MOST_AT_ONCE:
            for folder in outer:
                self._put(event.stream, event.position, folder, known)
        else:
            self._run("put_folder", folder=ANYWHERE, stream=event.stream, location="", position=event.position)

    def _known(self, stream: str) -> dict[str, str]:
        rows = self._store.rows(MODELS, "folders_of_stream", stream=stream)
        return {row["folder"]: row["location"] for row in rows if row["folder"] != ANYWHERE}

    def _put(self, stream: str, position: int, location: str, known: dict[str, str]) -> None:
        # The outer one first, so that a replay finds the same ones: which key holds the other hangs on the name.
        for key in sorted(folder_keys(location), key=len):
            if known.keys().isdisjoint(with_those_above([key])):
                known[key] = location
                self._run("put_folder", folder=key, stream=stream, location=location, position=position)

    def _folders(self, event: Event) -> Iterator[str]:
        """The folders that an event gives the table's files from now on."""
        payload = event.payload
        locations = given_locations(event.kind, payload)
        yield from locations
        yield from (payload.get("location-mapping") or {}).values()
        location = locations[-1] if locations else None
        for path in (p[name] for p in given_properties(payload) for name in PATHS if p.get(name)):
            if location is None:
                head = self._store.row(MODELS, "get_head", stream=event.stream)
                location = (head and head["location"]) or ""
            yield folder_at(location.rstrip("/"), path, "")

    def _run(self, query_name: str, /, **parameters: Any) -> None:
        self._store.execute(MODELS, query_name, **parameters)


def _named(event: Event, changes: Changes) -> tuple[list[str], bool]:
    """The files that the payload of an event names; false where it and the event's content do not name all files."""
    payload = event.payload
    if event.kind in _WITHOUT_CONTENT:
        return [], event.kind in _OF_VIEWS
    named = list(named_files(payload))
    if event.kind == ev.TABLE_RELOCATED:
        relocated = RelocatedManifests.from_dict(payload, event.position)
        listed, is_told = list(relocated.manifests), True
        named += relocated.lists.values()
    else:
        # Not told where a snapshot is known by its list's file alone.
        listed = [m for c in changes.values() for m in (*c.added, *(c.base or ()))]
        is_told = parents_of_added(payload).keys() <= changes.keys()
    named += (m.manifest.manifest_path for m in listed)
    return named, is_told and not any(m.is_foreign for m in listed)


def _outside(entries: pa.Table | None, prefixes: tuple[str, ...]) -> list[str]:
    import pyarrow.compute as pc

    if entries is None:
        return []

    paths = entries["file_path"]
    if len(paths) > MOST_AT_ONCE:
        # Paths that surely lie in a known folder are dropped in bulk.
        doubtful = pc.match_substring_regex(paths, _STEPS_OUT.pattern)
        for prefix in prefixes:
            inside = pc.and_not(pc.starts_with(paths, prefix), doubtful)
            if pc.any(inside).as_py():
                outside = pc.invert(inside)
                paths, doubtful = paths.filter(outside), doubtful.filter(outside)
    return [p for p in paths.to_pylist() if not p.startswith(prefixes) or _steps_out(p)]


def _steps_out(path: str) -> bool:
    """Whether a path may lie elsewhere than it begins."""
    return _STEPS_OUT.search(path) is not None
