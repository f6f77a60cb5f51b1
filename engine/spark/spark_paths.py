"""Locations of files as Spark takes them, and as it shows them in `_metadata.file_path`."""

from __future__ import annotations

import os
import unicodedata

from icecore.engine.common.location import local_path
from icecore.engine.storage.file_io import Storage

# What java.net.URI leaves alone in a path; percent signs are not among them.
_URI_PATH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*,;:$&+=@/")


def spark_path(storage: Storage, location: str) -> str:
    """The path for `spark.read` of a location: after the storage's mapping, local ones as `file:` paths.

    Nothing in it is percent-encoded: Spark takes a path as it is written.
    """
    target = storage.resolve(location)
    path = local_path(target)
    return target if path is None else "file://" + os.path.abspath(path)


def shown_path(path: str) -> str:
    """The `_metadata.file_path` of a file that was read by a path of `spark_path`."""
    scheme, _, rest = path.partition("://")
    authority, slash, inner = rest.partition("/")
    encoded = "".join(c if _is_kept(c) else _escaped(c) for c in slash + inner)
    while "//" in encoded:
        encoded = encoded.replace("//", "/")
    return f"{scheme}:{'//' + authority if authority else ''}{encoded}"


def spark_can_open(path: str, *, hidden: bool = False) -> bool:
    """Whether Spark reads a file of that path: it can't parse some names, and its listing skips hidden files.

    `hidden` says that files are given to Spark without a listing, so that hidden ones are read too.
    """
    scheme, _, rest = path.partition("://")
    segments = rest.split("/")
    name = segments[-1]
    if not hidden and (name.startswith((".", "_")) or name.endswith("._COPYING_")):
        return False
    if "." in segments or ".." in segments or not name:
        return False
    # Hadoop's local file system takes a colon in a name for the end of a scheme.
    return ":" not in rest if scheme == "file" else True


def _is_kept(c: str) -> bool:
    if c < "\x80":
        return c in _URI_PATH
    return unicodedata.category(c) not in ("Zs", "Zl", "Zp", "Cc")


def _escaped(c: str) -> str:
    return "".join(f"%{b:02X}" for b in c.encode("utf-8", "surrogatepass"))
