"""The standing of a stream: in the log, in its read models and with other engines, as one look finds it."""

from __future__ import annotations

import sqlite3

from attrs import frozen

from icecore.engine.common.identifiers import Identifier


@frozen
class Standing:
    """The standing of a stream; inside of the write lock it stays so until the stream is changed.

    `last_version` is that of its last event, 0 where it is archived. `published` is the metadata file that the log's
    pointer is at, after `written_version` events; `shared` is the one that other engines read, where they have a row.
    """

    stream: str
    last_version: int
    written_version: int
    published: str | None
    identifier: Identifier | None
    kind: str | None
    has_row: bool
    shared: str | None

    @classmethod
    def of(cls, row: sqlite3.Row, separator: str) -> Standing:
        """The standing that a row tells; `separator` is between the levels of a namespace."""
        stream, last_version, written_version, published, namespace, name, kind, has_row, shared = row
        identifier = None if name is None else (*namespace.split(separator), name)
        return cls(stream, last_version, written_version, published, identifier, kind, bool(has_row), shared)

    @property
    def is_moved(self) -> bool:
        """Whether another engine moved the pointer, or took its row away."""
        return self.identifier is not None and self.shared != self.published
