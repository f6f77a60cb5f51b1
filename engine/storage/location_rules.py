"""The places that tables and views may be at: inside of given folders, and in nobody else's.

Other engines read a location in their own ways: percent escapes may be decoded or not, what follows `?` or `#` may be
cut off, `..` may be taken back before symbolic links are followed or after. A location is inside only where it is so
in each of these ways.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias
from urllib.parse import unquote

from attrs import frozen

from icecore.engine.common.location import EQUAL_SCHEMES, to_uri
from icecore.engine.errors import ForbiddenLocationError

OWN_FILES = (".icecore", "icecore.db", "icecore.reports.db")
"""The beginnings of names of files and folders that a warehouse keeps for itself."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9_=+.-]*")
"""Names of files that all engines read in one way."""
_MOST_DECODED = 10
_MOST_CHARACTERS = 4096


@frozen
class LocationRules:
    """The rules of locations; without `roots` they may be anywhere.

    `roots` are the folders that locations must lie in, the first one the warehouse's own. With `unique` no table or
    view may be where another one is, inside of it or around it, nor be undropped there.
    """

    roots: tuple[str, ...] | None = None
    unique: bool = False

    @classmethod
    def of(cls, warehouse: str | os.PathLike[str], roots: Iterable[str] | None, *, unique: bool) -> LocationRules:
        """The rules for a warehouse, whose folder is always a root where there are any; a text alone is one root.

        Raises ValidationError for what is no location.
        """
        if roots is None:
            return cls(None, unique)
        given = (roots,) if isinstance(roots, str | os.PathLike) else roots
        return cls(tuple(to_uri(root).rstrip("/") for root in (os.fspath(warehouse), *given)), unique)

    @property
    def is_any(self) -> bool:
        """Whether there is a rule."""
        return self.roots is not None or self.unique

    def check_inside(self, location: str, what: str) -> None:
        """Raises ForbiddenLocationError, calling the location `what`, unless it is inside of a root."""
        if self.roots is None:
            return
        if fault := self._fault(location):
            raise ForbiddenLocationError(f"the {what} {location!r:.500} {fault}")

    def allowing(self) -> Callable[[str], bool]:
        """A test whether a file may be at a location, quick for many files of few folders."""
        known: dict[str, bool] = {}

        def allows(location: str) -> bool:
            if self.roots is None:
                return True
            folder, _, name = location.rpartition("/")
            if not _PLAIN_NAME.fullmatch(name) or name.casefold().startswith(OWN_FILES):
                return self._fault(location) is None
            if folder not in known:
                known[folder] = self._fault(location) is None
            return known[folder]

        return allows

    def _fault(self, location: str) -> str | None:
        assert self.roots is not None, "somebody asked without roots"
        if len(location) > _MOST_CHARACTERS:
            return f"is longer than {_MOST_CHARACTERS} characters"
        if any(ord(c) < 32 or c == "\x7f" for c in location):
            return "holds a control character"
        if "\\" in location:
            return "holds a backslash, which some systems take for a slash"
        if fault := _scheme_fault(location):
            return fault
        if not any(self._is_inside(location, root) for root in self.roots):
            named = ", ".join(self.roots)
            return f"is not inside of {named}, or behind a symbolic link there: locations elsewhere are not allowed"
        if any(_is_own(read(location), read(self.roots[0])) for read in _readings(self.roots[0])):
            return "is a place that the warehouse keeps for itself, or the warehouse is in it"
        return None

    def _is_inside(self, location: str, root: str) -> bool:
        is_inside = all(_inside(read(location), read(root)) for read in _readings(root))
        return is_inside and not _is_behind_link(location, root)


def path_of(location: str) -> tuple[str, str]:
    """The store and the path of a location: its scheme and authority, empty for a local disk, and what follows."""
    match = _SCHEME.match(location)
    if match is None:
        return "", location
    scheme, rest = match[1].lower(), location[match.end() :]
    if scheme == "file":
        return "", "/" + rest.lstrip("/") if rest.startswith("/") else rest
    authority, _, path = rest.removeprefix("//").partition("/")
    return f"{EQUAL_SCHEMES.get(scheme, scheme)}://{authority}", f"/{path}"


def _scheme_fault(location: str) -> str | None:
    match = _SCHEME.match(location)
    if match is None:
        return None if location.startswith("/") else "is no absolute path"
    rest = location[match.end() :]
    if match[1].lower() != "file":
        return None if rest.startswith("//") else "has a scheme, and no // after it"
    if not location.startswith("file:"):
        return "begins with a scheme that engines read in different ways: write file:"
    if not rest.startswith("/"):
        return "is no absolute path"
    if rest.startswith("//") and not rest.startswith("///"):
        return "names a host: write file:/// and the path"
    return None


Reading: TypeAlias = "Callable[[str], tuple[str, str]]"
Decode: TypeAlias = "Callable[[str], str]"


def _readings(root: str) -> Iterator[Reading]:
    """The ways in which engines read a location, each as its store and a path without `..`.

    Ways that cut a location off are left out where they would cut the root too: an engine that does so can't use the
    root.
    """
    for decode in (_as_it_is, _decoded):
        for cut in ("", *(c for c in "?#" if c not in decode(root))):
            yield partial(_read, decode, cut)

        yield partial(_followed, decode)


def _read(decode: Decode, cut: str, location: str) -> tuple[str, str]:
    store, path = path_of(decode(location))
    path = path.split(cut)[0] if cut else path
    return store, os.path.normpath("/" + path.lstrip("/"))


def _followed(decode: Decode, location: str) -> tuple[str, str]:
    store, path = path_of(decode(location))
    return store, os.path.normpath("/" + path.lstrip("/")) if store else os.path.realpath(path)


def _as_it_is(location: str) -> str:
    return location


def _decoded(location: str) -> str:
    """A location without percent escapes, not even those that escapes were hidden in."""
    for _ in range(_MOST_DECODED):
        plain = unquote(location)
        if plain == location:
            break
        location = plain
    return location


def _inside(location: tuple[str, str], root: tuple[str, str]) -> bool:
    """Whether a path is below another one of the same store."""
    folder = root[1].rstrip("/") + "/"
    return location[0] == root[0] and location[1].startswith(folder) and location[1] != folder


def _is_behind_link(location: str, root: str) -> bool:
    """Whether a symbolic link below a root leads to a location inside of it, which has another name then."""
    (store, path), (_, home) = path_of(location), path_of(root)
    if store:
        return False
    below = os.path.relpath(os.path.normpath(path), os.path.normpath(home))
    return os.path.realpath(path) != os.path.join(os.path.realpath(home), below)


def _is_own(location: tuple[str, str], home: tuple[str, str]) -> bool:
    """Whether a path is the folder of a warehouse, holds it, or is one that the warehouse has for its own files."""
    if not _inside(location, home):
        return location == home or _inside(home, location)
    name = location[1][len(home[1].rstrip("/")) + 1 :].split("/")[0]
    return name.casefold().startswith(OWN_FILES)


def place_keys(location: str, *, follow: bool = True) -> set[str]:
    """The keys of a folder's location: as written, decoded, and with links followed. All of one folder's share one."""
    keys = set()
    for text in (location, _decoded(location)):
        store, path = path_of(text)
        keys.add(store + os.path.normpath("/" + path.lstrip("/")))
        if follow and not store and path:
            keys.add(os.path.realpath(path))
    return keys


def is_in_or_around(one: set[str], other: set[str]) -> bool:
    """Whether two folders, by their keys, are the same, or one holds the other."""
    return any(f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/") for a in one for b in other)
