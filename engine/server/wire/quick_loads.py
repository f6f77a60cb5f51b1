"""Loads of tables that the event loop answers, as long as the log has nothing new for the table.

An answer is kept under the request that asked for it. Before it is given again, one look at the log's file tells
whether anybody wrote to it since; if so, one query tells whether they wrote to this table. The metadata file must be
there, as other engines will ask for it.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping

from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import IcecoreError
from icecore.engine.log.read_models import dotted
from icecore.engine.log.sqlite_file import DataVersion
from icecore.engine.log.store import EventStore

_LOADS = "server/loads.sql"
COMPRESSED_FROM = 8 * 1024
_NO_WEIGHT = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*")
NEVER = 1 << 62
Key = tuple[bytes, ...]
"""Path, query, and the headers that an answer depends on."""
_BESIDE = 1024
"""The bytes of memory, about, that an answer takes beside its body and its request."""


@define(eq=False)
class QuickLoad:
    """The answer to a load of one table as it is sent, and what the log said of the table then."""

    name: Identifier
    stream: str
    stream_version: int
    metadata_location: str
    path: str
    body: bytes
    headers: Mapping[str, str]
    checked_at: DataVersion | None = None
    expires_at_ms: int = NEVER

    @property
    def etag(self) -> str:
        """Its ETag."""
        return self.headers["etag"]


@define(eq=False)
class QuickLoads:
    """The loads that are kept, up to a number of bytes, of which the least recently used go first. For one thread.

    Their requests count too, as these may be longer than what they ask for. Where `asks_for_tokens` any write to the
    log drops a load, since it may have revoked the token of its client.
    """

    store: EventStore
    catalog_name: str
    most_bytes: int
    asks_for_tokens: Callable[[], bool] = lambda: False
    _kept: OrderedDict[Key, QuickLoad] = field(factory=OrderedDict)
    _size: int = 0

    def version(self) -> DataVersion:
        """A value that changes once anybody writes to the log's file."""
        return self.store.data_version()

    def put(self, key: Key, load: QuickLoad, version: DataVersion | None) -> None:
        """Keeps an answer that was begun when the log's file had that version."""
        self.drop(key)
        load.checked_at = version
        self._kept[key] = load
        self._size += _size_of(key, load)
        while self._size > self.most_bytes:
            self.drop(next(iter(self._kept)))

    def drop(self, key: Key) -> None:
        """Lets an answer go, if there is one."""
        if (gone := self._kept.pop(key, None)) is not None:
            self._size -= _size_of(key, gone)

    def find(self, key: Key) -> QuickLoad | None:
        """The answer to a request, if it is what a load would give now."""
        load = self._kept.get(key)
        if load is None:
            return None
        try:
            os.stat(load.path)
            # The query of the version looks at the locks now and then, which takes longer.
            self.store.check_path()
            if self._is_same(load):
                self._kept.move_to_end(key)
                return load
        except (OSError, IcecoreError):
            pass
        self.drop(key)
        return None

    def _is_same(self, load: QuickLoad) -> bool:
        version = self.version()
        if load.expires_at_ms <= now_ms():
            return False
        if load.checked_at is not None and load.checked_at == version:
            return True
        if self.asks_for_tokens():
            return False
        found = self.store.row(
            _LOADS,
            "is_as_loaded",
            catalog_name=self.catalog_name,
            namespace=dotted(load.name[:-1]),
            name=load.name[-1],
            stream=load.stream,
            stream_version=load.stream_version,
            metadata_location=load.metadata_location,
        )
        load.checked_at = version
        return found is not None


def _size_of(key: Key, load: QuickLoad) -> int:
    return sum(map(len, key)) + len(load.body) + _BESIDE


def quick_headers(load: QuickLoad, asked: Mapping[bytes, bytes]) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers of an answer to a request with these headers: 304 where the client has it already."""
    if is_held(load.etag, asked.get(b"if-none-match", b"").decode("latin-1")):
        return 304, b"", [(b"etag", load.etag.encode())]
    headers = [(name.encode(), value.encode()) for name, value in load.headers.items()]
    size = str(len(load.body)).encode()
    return 200, load.body, [(b"content-type", b"application/json"), *headers, (b"content-length", size)]


def is_held(tag: str, told: str) -> bool:
    """Whether the text of an `If-None-Match` has the tag; `*` is any tag (RFC 9110, 13.1.2)."""
    return told.strip() == "*" or tag in (t.strip().removeprefix("W/") for t in told.split(","))


def takes_gzip(accepted: str) -> bool:
    """Whether the text of an `Accept-Encoding` allows gzip, which a weight of 0 refuses (RFC 9110, 12.5.3)."""
    for named in accepted.lower().split(","):
        coding, _, weight = named.partition(";")
        if coding.strip() in ("gzip", "x-gzip"):
            return _NO_WEIGHT.fullmatch(weight) is None
    return False
