"""Locations of files and folders: URIs and local paths, as the metadata has them. Nothing here touches a file.

A location is taken as it is written, as Java and PyIceberg do: nothing in it is percent-decoded. A *location mapping*
(`s3://old/prefix` -> `/new/prefix`) lets a table that was copied be read where it lies, without rewriting its metadata.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from attrs import frozen

from icecore.engine.common.text import is_unicode
from icecore.engine.errors import ValidationError


@frozen
class LocationMapping:
    """Prefix replacement on whole path segments, the longest prefix first.

    A prefix stands for its other spellings, too: `/a` for `file:/a`, `s3:` for `s3a:`. `/a` also stands for that path
    of any HDFS, and an HDFS path for `/a`: engines write the paths of a table with and without a name node.
    """

    prefixes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, mapping: Mapping[str, str] | None) -> LocationMapping:
        """The mapping of old to new prefixes, slashes at their ends aside."""
        pairs = ((old.rstrip("/"), new.rstrip("/")) for old, new in (mapping or {}).items())
        return cls(tuple(sorted(pairs, key=lambda p: -len(p[0]))))

    def resolve(self, location: str, *, as_spelled: bool = False) -> str:
        """The location of the bytes of a file whose metadata location is `location`.

        The part after the prefix is kept as it is spelled with `as_spelled`; else it may lose `//` and `/./`.
        """
        for old, new in self.prefixes:
            if location == old or location.startswith(old + "/"):
                return new + location[len(old) :]
        return self._resolve_other_spelling(location, as_spelled) if self.prefixes else location

    def _resolve_other_spelling(self, location: str, as_spelled: bool) -> str:
        if _is_relative(location) and not _has_relative(self):
            # Text that is no location looks like a relative path, and would be resolved in the working directory.
            return location
        scheme, known = _kind_and_key(location)
        for key in (path_key(location), known) if as_spelled else (known,):
            for schemes, old, new in _prefix_keys(self):
                if scheme in schemes and (key == old or key.startswith(old + "/")):
                    return new + key[len(old) :]
        return location

    def then(self, other: LocationMapping) -> LocationMapping:
        """This mapping followed by another, which maps what this one leaves or gives."""
        own = {old: other.resolve(new) for old, new in self.prefixes}
        return LocationMapping.of({**other.to_dict(), **own})

    def to_dict(self) -> dict[str, str]:
        """New prefixes by old ones."""
        return dict(self.prefixes)


def local_path(location: str) -> str | None:
    """The path of a local location (`file:///a`, `file:/a`, `/a`, `a`), or None for another scheme."""
    if location.startswith("file:"):
        rest = location[len("file:") :]
        return "/" + rest.lstrip("/") if rest.startswith("/") else rest
    return None if "://" in location else location


def _is_relative(location: str) -> bool:
    path = local_path(location)
    return path is not None and not path.startswith("/")


def to_uri(path: str | os.PathLike[str]) -> str:
    """The `file://` location of a local path, absolute; a location with a scheme stays as it is.

    Raises ValidationError for what is no path: blank, or with a NUL or a lone surrogate inside.
    """
    text = os.fspath(path)
    if fault := path_fault(text):
        raise ValidationError(f"a location {fault}")
    local = local_path(text)
    return text if local is None else "file://" + os.path.abspath(local)


def given_location(location: str) -> str:
    """The location of a table or view as a user gives it: what is a URI stays as it is spelled, `file:/` too.

    Raises ValidationError for what is no path.
    """
    uri = to_uri(location)
    return (location if location.startswith("file:/") else uri).rstrip("/")


EQUAL_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3"}
"""Schemes that stand for another."""
_FILE = re.compile("^file:(//)?/")


def location_key(location: str) -> str:
    """A text that is the same for all spellings of a file's location.

    Local ones are absolute paths without `file:`, s3a and s3n are s3. A location mapping is to be applied before.
    """
    path = local_path(location)
    if path is not None:
        return os.path.abspath(path)
    scheme, _, rest = location.partition("://")
    scheme = scheme.lower()
    return f"{EQUAL_SCHEMES.get(scheme, scheme)}://{rest}"


def path_key(location: str) -> str:
    """A text that is the same for schemes that stand for one another, with the path as it is spelled.

    Plans and readers match delete files with data files by it: other engines compare the whole text, so a path with
    `//` or `/./` in it names another file.
    """
    path = _FILE.sub("/", location)
    scheme, colon, rest = path.partition(":")
    return f"{EQUAL_SCHEMES.get(scheme, scheme)}{colon}{rest}"


@lru_cache(maxsize=100)
def _has_relative(mapping: LocationMapping) -> bool:
    return any(_is_relative(old) for old, _ in mapping.prefixes)


@lru_cache(maxsize=100)
def _prefix_keys(mapping: LocationMapping) -> list[tuple[frozenset[str], str, str]]:
    """For each prefix the kinds of locations that it stands for, its path and the new prefix; longest path first."""
    out = []
    for old, new in mapping.prefixes:
        if old:
            scheme, key = _kind_and_key(old)
            others = {"": ("file", "hdfs"), "file": ("",), "hdfs": ("",)}.get(scheme, ())
            out.append((frozenset((scheme, *others) if scheme != "hdfs" else others), key, new))
    return sorted(out, key=lambda found: -len(found[1]))


def _kind_and_key(location: str) -> tuple[str, str]:
    """The kind of a location, and a text that is the same for its spellings: of an HDFS without the authority."""
    if location.startswith("hdfs://"):
        return "hdfs", "/" + location.removeprefix("hdfs://").partition("/")[2]
    if local_path(location) is not None:
        return "file" if location.startswith("file:") else "", location_key(location)
    return "other", location_key(location)


def is_same_file(one: str | None, other: str | None) -> bool:
    """Whether two locations are of one file; None is the location of no file."""
    return one is not None and other is not None and (one == other or location_key(one) == location_key(other))


def folded(path: str) -> str:
    """A text that is the same for all spellings that some file system takes for one name."""
    doubled = path
    while "//" in doubled:
        doubled = doubled.replace("//", "/")
    return unicodedata.normalize("NFC", doubled).casefold()


def is_inside(location: str, folder: str) -> bool:
    """Whether a location lies in a folder, however both are written."""
    paths = [local_path(x) for x in (location, folder)]
    one, other = (x if p is None else os.path.normpath(p) for x, p in zip((location, folder), paths, strict=True))
    return f"{one}/".startswith(f"{other.rstrip('/')}/")


def path_fault(path: object) -> str | None:
    """The rest of a sentence on the fault of a file's path; None for a good one."""
    if not isinstance(path, str):
        return f"must be text, found {path!r:.100}"
    if not path.strip() or "\0" in path:
        return f"must not be blank or hold a NUL, found {path!r}"
    return None if is_unicode(path) else f"must be Unicode text, found a lone surrogate in {path!r}"
