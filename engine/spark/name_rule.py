"""The rule by which names of a DataFrame match names of a table: the same name, else one in another case.

Case is ignored unless `spark.sql.caseSensitive` is on, and only where a single name can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE_SENSITIVE = "spark.sql.caseSensitive"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")


def is_case_sensitive(session: SparkSession) -> bool:
    """Whether a session tells names apart that differ in case alone."""
    return says_true(session.conf.get(CASE_SENSITIVE, None))


def says_true(setting: str | None) -> bool:
    """Whether a setting is `true`, in upper or lower case; one that was never made is off."""
    return setting is not None and str(setting).strip().lower() == "true"


def is_plain(name: str) -> bool:
    """Whether a name has only letters, digits and `_`, so that no session takes it for a pattern."""
    return _PLAIN_NAME.fullmatch(name) is not None


class KnownNames:
    """Names among which others are looked up."""

    def __init__(self, names: Iterable[str], *, case_sensitive: bool) -> None:
        self.names: Sequence[str] = tuple(names)
        self._places = {name: i for i, name in enumerate(self.names)}
        self._alike: dict[str, list[int]] = {}
        if not case_sensitive:
            for i, name in enumerate(self.names):
                self._alike.setdefault(name.lower(), []).append(i)

    def place(self, name: str) -> int | None:
        """The place of the known name that a name means; None where there is none, or several in another case."""
        found = self._places.get(name)
        if found is None:
            alike = self._alike.get(name.lower(), [])
            found = alike[0] if len(alike) == 1 else None
        return found

    def find(self, name: str) -> str | None:
        """The known name that a name means; None as in `place`."""
        place = self.place(name)
        return None if place is None else self.names[place]

    def takes(self, name: str) -> bool:
        """Whether a name is a known one, or could be taken for one or several of them."""
        return name in self._places or name.lower() in self._alike
