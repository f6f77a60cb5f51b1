"""The home folder of a warehouse, against the folder that was opened.

Locations are absolute, so the log says where its files lie. A warehouse that was copied or moved names the folder that
it came from: it is read by translation, and changed only after `move` or `clone` gave it paths of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from attrs import frozen

from icecore.engine.common.identifiers import folder_name
from icecore.engine.common.location import LocationMapping, local_path, to_uri
from icecore.engine.errors import IcecoreError, StorageError
from icecore.engine.events.event import TABLE_CREATED, VIEW_CREATED, Event
from icecore.engine.events.event_facts import given_locations
from icecore.engine.events.relocation import moved_prefixes
from icecore.engine.log.store import MODELS, EventStore

ROOT = "root"
UUID = "warehouse-uuid"
SHARED = "shared"
"""The keys of what is known of a warehouse: its folder, identity, and locations of others that a clone only reads."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@frozen
class WarehouseFolder:
    """`root` is the location of the warehouse in its log, `opened` that of the folder it lies in."""

    root: str
    opened: str

    @classmethod
    def of(cls, store: EventStore) -> WarehouseFolder:
        """The folders of a store. A log that earlier releases began names its tables' default locations only."""
        opened = to_uri(store.path.parent)
        root = store.warehouse_value(ROOT) or inferred_root(store)
        if root is None or _is_same_folder(root, opened):
            root = root or opened
            return cls(root, root)
        return cls(root, opened)

    @property
    def is_home(self) -> bool:
        """Whether the warehouse lies in its home folder."""
        return self.root == self.opened

    def mapping(self) -> LocationMapping:
        """The mapping of locations in the log's folder to the folder that was opened."""
        return LocationMapping.of({} if self.is_home else moved_prefixes(self.root, self.opened))

    def refusal(self) -> str:
        """The reason, in a line, why nothing is written."""
        root, opened = local_path(self.root), local_path(self.opened)
        return (
            f"{opened} holds a warehouse that was copied or moved from {root}, so it is only read: "
            f"`icecore move` gives it the paths of its new folder, `icecore clone` makes a copy a warehouse of its own"
        )


def local_folder(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a warehouse's folder. Raises StorageError for a location that is not of a local disk."""
    text = os.fspath(path)
    local = local_path(text)
    if local is None or (_SCHEME.match(local) and not os.path.lexists(local)):
        raise StorageError(
            f"the log of a warehouse is an SQLite file, which can't live at {text}: open a folder of a local disk "
            f"(the locations of its tables may be elsewhere)"
        )
    return Path(local).absolute()


def inferred_root(store: EventStore) -> str | None:
    """The folder that the first table or view with a default location lies in; None where there is none.

    Where all were given locations, it is the folder around one that holds the log which this one was copied from.
    """
    created = [e for e in store.naming_events() if e.kind in (TABLE_CREATED, VIEW_CREATED)]
    for event in created:
        if (root := _root_of(event, store.path.name)) is not None:
            return root
    places = [place for event in created for x in _locations(event) if (place := local_path(x)) is not None]
    for folder in dict.fromkeys(parent for place in places for parent in Path(place).parents):
        if (folder / store.path.name).exists() and _is_same_warehouse(store, folder / store.path.name):
            return to_uri(folder)
    return None


def _locations(event: Event) -> list[str]:
    """The locations that tables and views were created at."""
    return given_locations(event.kind, event.payload)[-1:]


def _is_same_warehouse(store: EventStore, log: Path) -> bool:
    """Whether another log has the identity of this one."""
    own = store.warehouse_value(UUID)
    with contextlib.suppress(IcecoreError), contextlib.closing(EventStore(log, create=False, read_only=True)) as other:
        return own is not None and other.warehouse_value(UUID) == own
    return False


def _root_of(event: Event, log_file: str) -> str | None:
    tail = "/" + "/".join(map(folder_name, event.payload["identifier"]))
    for location in _locations(event):
        # A folder that was taken already gets a part of the table's id.
        for ending in (tail, tail + location[-9:]):
            if location.startswith("file:///") and location.endswith(ending):
                root, folder = location[: -len(ending)], local_path(location)
                # Where that folder is there without a warehouse around it, it was only given that name.
                is_left = folder is not None and not os.path.exists(folder)
                if is_left or os.path.exists(f"{local_path(root)}/{log_file}"):
                    return str(root)
    return None


def root_of_events(store: EventStore) -> str | None:
    """The folder that the events of a log name: by the last move or clone, else by the locations of tables."""
    steps = store.relocations.steps
    return steps[-1].target if steps else inferred_root(store)


def note_root(store: EventStore, root: str) -> None:
    """Stores the folder of a log that names none yet, inside of a write transaction."""
    store.execute(MODELS, "set_warehouse", key=ROOT, value=root)


def _is_same_folder(one: str, other: str) -> bool:
    """Whether two locations are one folder, which may be reached by several paths."""
    paths = local_path(one), local_path(other)
    if None in paths or paths[0] == paths[1]:
        return None not in paths
    try:
        return os.path.samefile(*paths)  # type: ignore[arg-type]  # neither is None
    except OSError:
        return False
