"""The options of `format("icecore")`: text by name, whatever its case, as Spark hands it over."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson
from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import number_in
from icecore.engine.errors import ValidationError

Value = TypeVar("Value")

_TABLE = frozenset({"warehouse", "path", "table"})
_CHANGES = frozenset({"changelog", "compute-updates", "identifier-columns"})
READING = _TABLE | {
    *_CHANGES,
    "columns",
    "filter",
    "snapshot-id",
    "ref",
    "as-of",
    "position",
    "start-snapshot-id",
    "end-snapshot-id",
    "split-size",
}
"""The options of a read."""

NAMED = READING - _TABLE - _CHANGES - {"columns", "split-size"}
"""The options of a read of a table by its name in a catalog; the query says which columns are read."""

METADATA = _TABLE | {"position", "split-size"}
"""The options of a read of a metadata table."""

STREAMING = _TABLE | {
    *_CHANGES,
    "columns",
    "branch",
    "start-snapshot-id",
    "start-timestamp",
    "max-files-per-micro-batch",
    "max-rows-per-micro-batch",
    "streaming-skip-overwrite-snapshots",
    "streaming-skip-delete-snapshots",
    "split-size",
}
"""The options of a stream that is read."""

WRITING = _TABLE | {
    "branch",
    "message",
    "author",
    "idempotency-key",
    "snapshot-properties",
    "overwrite-mode",
    "overwrite-filter",
    "merge-schema",
}
"""The options of a write."""

STREAM_WRITING = _TABLE | {
    *("branch", "message", "author", "snapshot-properties", "merge-schema"),
    *("query-id", "skip-committed-batches"),
    # Spark's own, which it hands over too.
    *("checkpointlocation", "queryname"),
}
"""The options of a stream that is written."""

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


@frozen
class SourceOptions:
    """The options that were given, by their names in lower case, and the folder that a relative warehouse is in."""

    given: Mapping[str, str]
    folder: str

    @classmethod
    def of(
        cls, options: Mapping[str, str], known: frozenset[str], *, prefixes: tuple[str, ...] = (), folder: str = ""
    ) -> SourceOptions:
        """The options, checked for names. Raises ValidationError for one that is not known."""
        given = {name.lower(): value for name, value in options.items()}
        for name in given:
            if name not in known and not name.startswith(prefixes or ("\0",)):
                raise ValidationError(f"there is no option {name!r} here; there are: {', '.join(sorted(known))}")
        return cls(given, folder)

    def check_only(self, known: frozenset[str], what: str) -> None:
        """Raises ValidationError where an option was given that `what` does not have."""
        for name in self.given:
            if name not in known:
                raise ValidationError(f"{what} has no option {name!r}; it has: {', '.join(sorted(known))}")

    def text(self, name: str) -> str | None:
        """The value of an option; None where it was not given."""
        return self.given.get(name)

    def moment(self, name: str) -> int | str | None:
        """A time as milliseconds or as text."""
        text = self.text(name)
        digits = "" if text is None else text.strip()
        number = number_in(digits.removeprefix("-"))
        return text if number is None else -number if digits.startswith("-") else number

    def whole_number(self, name: str, *, least: int | None = None) -> int | None:
        """The value as a number. Raises ValidationError where it is none, or less than `least`."""
        found = self._parsed(name, int, "a whole number")
        if found is not None and least is not None and found < least:
            raise ValidationError(f"the option {name!r} must be at least {least}, found {found}")
        return found

    def flag(self, name: str) -> bool:
        """Whether the option is `true`. Raises ValidationError where it is neither that nor `false`."""
        words = {"true": True, "false": False}
        return bool(self._parsed(name, lambda text: words[text.lower()], "true or false"))

    def text_map(self, name: str) -> dict[str, str]:
        """The value as a JSON object of text by text. Raises ValidationError where it is none."""

        def parsed(text: str) -> dict[str, str]:
            found: Any = orjson.loads(text)
            if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
                raise ValueError
            return found

        return self._parsed(name, parsed, 'a JSON object of text, as {"key": "value"}') or {}

    def _parsed(self, name: str, parse: Callable[[str], Value], expected: str) -> Value | None:
        text = self.given.get(name)
        if text is None:
            return None
        try:
            return parse(text.strip())
        except (ValueError, KeyError):
            raise ValidationError(f"the option {name!r} must be {expected}, found {text[:80]!r}") from None

    @property
    def warehouse(self) -> str:
        """The warehouse folder, as an absolute path. Raises ValidationError where none was given."""
        found = self.given.get("warehouse")
        if not found:
            raise ValidationError(
                "the option 'warehouse' is needed, the folder of the warehouse; or register it once for all: "
                "icecore.spark.register(spark, warehouse=FOLDER)"
            )
        return os.path.join(self.folder, found.removeprefix("file://"))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are asked for, `*` where there is no option."""
        return self.names("columns") or ("*",)

    @property
    def is_changelog(self) -> bool:
        """Whether a changelog is asked for. Raises ValidationError where one is not, but an option of one is given."""
        found = self.flag("changelog")
        for name in sorted(_CHANGES & self.given.keys()):
            if not found and name != "changelog":
                raise ValidationError(f"the option {name!r} needs 'changelog'")
        return found

    def names(self, name: str) -> tuple[str, ...] | None:
        """The names that an option lists with commas; None where it was not given."""
        text = self.given.get(name)
        return None if text is None else tuple(n.strip() for n in text.split(","))

    @property
    def identifier(self) -> Identifier:
        """The table's name: dotted, with backticks around a level that has a dot. Raises ValidationError."""
        found = self.given.get("table") or self.given.get("path")
        if not found:
            raise ValidationError('a table must be named, as in load("namespace.table")')
        return name_of(found)


def name_of(text: str) -> Identifier:
    """The levels of a dotted name, in which backticks may quote a level. Raises ValidationError."""
    parts, at = [], 0
    while True:
        m = _PART.match(text, at)
        if m is None or (m.end() < len(text) and text[m.end()] != "."):
            raise ValidationError(f"{text!r} is no name, as namespace.table or namespace.`a.b`")
        parts.append(m[1].replace("``", "`") if m[1] is not None else m[2])
        if m.end() == len(text):
            return tuple(parts)
        at = m.end() + 1
