"""Archives: the oldest part of a log, in files beside it, each a SQLite file of events and content.

What is needed without the files stays in the log: events that give names or answer an idempotency key, the last
archived event of each stream with the state after it, and the content files of snapshots that are still there. All else
is read through to the files, and is a MissingArchiveError where one of them is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from icecore.engine.errors import CorruptLogError, MissingArchiveError
from icecore.engine.log.sqlite_file import SqliteFile
from icecore.engine.queries.named_queries import query

ARCHIVE = "log/archive.sql"
EVENTS = "log/events.sql"


@frozen
class Archive:
    """One archive: the events of positions `first_position` to `last_position`, and the file that holds them.

    `file` is relative to the log's folder where it lies in there.
    """

    archive_id: int
    first_position: int
    last_position: int
    first_prev_hash: str
    last_hash: str
    first_recorded_at_ms: int
    last_recorded_at_ms: int
    file: str
    length: int
    sha256: str

    def __str__(self) -> str:
        return f"the archive of positions {self.first_position} to {self.last_position}, {self.file}"


class Archives:
    """The archives of one log. They are listed each time: another process may make one."""

    def __init__(self, log: SqliteFile) -> None:
        self._log = log
        self._are_there = False

    def all(self) -> list[Archive]:
        """The archives, oldest first."""
        if not self._exist():
            return []
        return [Archive(**dict(row)) for row in self._log.rows(ARCHIVE, "all")]

    def _exist(self) -> bool:
        if not self._are_there:
            self._are_there = self._log.row(ARCHIVE, "has_archives") is not None
        return self._are_there

    @property
    def last_position(self) -> int:
        """The position up to which the log is archived; 0 where it is not."""
        found = self.all()
        return found[-1].last_position if found else 0

    def path_of(self, archive: Archive) -> Path:
        """The path of an archive's file."""
        return self._log.path.absolute().parent / archive.file

    def paths(self) -> set[Path]:
        """The paths of the archives' files."""
        return {self.path_of(a) for a in self.all()}

    @property
    def are_in_place(self) -> bool:
        """Whether the files of all archives are where the log has them."""
        return all(path.exists() for path in self.paths())

    # Events in the files

    def events(self, query_name: str, after: int, up_to: int, /, **parameters: Any) -> Iterator[sqlite3.Row]:
        """The rows of a query over the events of the files after one position up to another, in order.

        Raises MissingArchiveError, CorruptLogError.
        """
        for archive in self.all():
            if archive.last_position > after and archive.first_position <= up_to:
                yield from self._rows(archive, query_name, parameters | {"after": after, "up_to": up_to})

    def stream_events(self, stream: str, after: int, before: int, up_to: int) -> Iterator[sqlite3.Row]:
        """The rows of a stream's events after one version and before another, up to a position.

        Raises MissingArchiveError, CorruptLogError.
        """
        if not self._exist():
            return
        by_id = {a.archive_id: a for a in self.all()}
        for row in self._log.rows(ARCHIVE, "streams_by_archive", stream=stream):
            archive = by_id.get(row["archive_id"])
            if archive is None:
                raise CorruptLogError(f"the log has events of {stream} in an archive that it does not know any more")
            if row["stream_version"] > after and row["first_version"] < before and archive.first_position <= up_to:
                found = self._rows(archive, "of_stream", {"stream": stream, "after": after, "up_to": up_to})
                yield from (r for r in found if r["stream_version"] < before)

    def find(self, query_name: str, /, **parameters: Any) -> sqlite3.Row | None:
        """The first row of a query over the files that are there, newest first."""
        for archive in reversed(self.all()):
            with contextlib.suppress(MissingArchiveError):
                for row in self._rows(archive, query_name, parameters):
                    return row
        return None

    def at(self, query_name: str, position: int) -> sqlite3.Row | None:
        """The row of a query about one archived position. Raises MissingArchiveError."""
        for archive in self.all():
            if archive.first_position <= position <= archive.last_position:
                return next(self._rows(archive, query_name, {"position": position}), None)
        return None

    def holding_time(self, timestamp_ms: int) -> Archive | None:
        """The archive that a time falls into, whose file has to be asked."""
        for archive in self.all():
            if archive.first_recorded_at_ms <= timestamp_ms < archive.last_recorded_at_ms:
                return archive
        return None

    def position_at(self, timestamp_ms: int) -> int:
        """The last archived position recorded at or before a time. Raises MissingArchiveError."""
        inside = self.holding_time(timestamp_ms)
        if inside is not None:
            return int(next(self._rows(inside, "position_at", {"timestamp_ms": timestamp_ms}))["position"])
        ended = [a.last_position for a in self.all() if a.last_recorded_at_ms <= timestamp_ms]
        return max(ended, default=0)

    def _rows(self, archive: Archive, query_name: str, parameters: dict[str, Any]) -> Iterator[sqlite3.Row]:
        connection = self._connected(archive)
        try:
            cursor = connection.execute(query(EVENTS, query_name), parameters)
            while batch := cursor.fetchmany(500):
                yield from batch
        except sqlite3.DatabaseError as e:
            raise CorruptLogError(f"{archive} is damaged: {e}") from e
        finally:
            connection.close()

    def _connected(self, archive: Archive) -> sqlite3.Connection:
        """A connection to an archive's file. Raises as `_open`, for the file that the log has for it by then."""
        tried: Archive | None = None
        while True:
            # The archive may have been written anew, to another file, for something that was forgotten since it was
            # listed.
            now = next((a for a in self.all() if a.archive_id == archive.archive_id), archive)
            try:
                return self._open(now)
            except MissingArchiveError:
                if now == tried:
                    raise
                tried = now

    def _open(self, archive: Archive) -> sqlite3.Connection:
        path = self.path_of(archive)
        try:
            length = os.path.getsize(path)
        except OSError as e:
            raise MissingArchiveError(
                f"{archive}, is not at {path}: the log before position {archive.last_position + 1} can't be read"
            ) from e
        if length != archive.length:
            raise CorruptLogError(f"{archive} was changed: it has {length} bytes, not {archive.length}")
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        return connection

    # What stays in the log

    def kept(self, query_name: str, /, **parameters: Any) -> list[sqlite3.Row]:
        """The rows of a query over the archived events that the log still has; none where nothing is archived."""
        return self._log.rows(ARCHIVE, query_name, **parameters) if self._exist() else []

    def kept_row(self, query_name: str, /, **parameters: Any) -> sqlite3.Row | None:
        """The first row of such a query; None where there is none."""
        found = self.kept(query_name, **parameters)
        return found[0] if found else None

    def last_version(self, stream: str) -> int:
        """The version up to which a stream is archived; 0 where it is not."""
        found = self.kept_row("last_of_stream", stream=stream)
        return 0 if found is None else int(found["stream_version"])

    # Checks

    def problems(self) -> Iterator[tuple[Archive, str]]:
        """Archives whose file is missing or changed, with a sentence each; their chain is checked with the log's."""
        for archive in self.all():
            path = self.path_of(archive)
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as e:
                yield archive, f"{archive}, can't be read at {path}: {e.strerror}"
                continue
            if digest != archive.sha256:
                yield archive, f"{archive} was changed after it was written"
