"""Version hints of tables that a server's clients commit to: written once for all commits of a second.

Writing a hint takes as long as all else that follows a commit, and clients of the server read none. The log notes the
tables whose hints are due, so a crash delays them until the next open.
"""

from __future__ import annotations

import sqlite3
import warnings

from attrs import define, field

from icecore.engine.errors import IcecoreError
from icecore.engine.server.feed.gathering import Gathering
from icecore.projections.files.file_follower import FileFollower


@define(eq=False)
class LateHints:
    """The hints that one open warehouse's follower of files leaves to a thread, until it is closed."""

    files: FileFollower
    _gathering: Gathering[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._gathering = Gathering("icecore-hints", self._write, at_end=self.files.store.close)
        self.files.hint_later = self._gathering.take

    def close(self) -> None:
        """Writes the hints that are due; from now on each commit writes its own."""
        self.files.hint_later = None
        self._gathering.close()

    def _write(self, due: list[str]) -> None:
        for stream in dict.fromkeys(due):
            try:
                self.files.hint(stream)
            except (IcecoreError, sqlite3.Error) as e:
                warnings.warn(f"the version hint of {stream} is not written: {e}", stacklevel=1)
