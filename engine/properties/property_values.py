"""The values that a property may have: each kind checks new values and parses those that are there.

Who sets a property is held to its values. What is there may be of another engine, so it is parsed as Java's
PropertyUtil does: a flag is set where its text is `true` in any case, a number is decimal digits (a minus before them
where the number may be below zero), and words are compared as the property says. Spaces around are let be, as PyIceberg
has it; Java can't read such a number at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, TypeVar

from attrs import frozen

from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    from icecore.engine.spec.name_mapping import NameMapping

T_co = TypeVar("T_co", covariant=True)
_LONGEST = 2**63 - 1


class Values(Protocol[T_co]):
    """The values that a property may have."""

    @property
    def expected(self) -> str:
        """The allowed values, as an error names them."""

    def fault(self, text: str) -> str | None:
        """The allowed values where a new text is none of them; None where it is one."""

    def parse(self, text: str) -> T_co | None:
        """The value of an existing text; None where it is none."""


@frozen
class Choice:
    """One of some words, in any case of letters unless `exact`; the value is the word in lower case."""

    values: tuple[str, ...]
    exact: bool = False

    def fault(self, text: str) -> str | None:
        return None if text == text.strip() and self.parse(text) is not None else self.expected

    def parse(self, text: str) -> str | None:
        word = text if self.exact else text.strip().lower()
        return word if word in self.values else None

    @property
    def expected(self) -> str:
        return " or ".join(self.values) if len(self.values) < 3 else f"one of {', '.join(self.values)}"


@frozen
class Flag:
    """A yes or no; as in Java whatever is not true is false where it is read."""

    expected: str = "true or false"

    def fault(self, text: str) -> str | None:
        return None if text.lower() in ("true", "false") else self.expected

    def parse(self, text: str) -> bool:
        return text.lower() == "true"


@frozen
class Whole:
    """A whole number in decimal digits, from `least` to `most`."""

    least: int = 0
    most: int = _LONGEST

    def fault(self, text: str) -> str | None:
        return None if text == text.strip() and self.parse(text) is not None else self.expected

    def parse(self, text: str) -> int | None:
        digits = text.strip()
        if not re.fullmatch(r"-?\d{1,19}", digits):
            return None
        number = int(digits)
        return number if self.least <= number <= self.most else None

    @property
    def expected(self) -> str:
        most = "" if self.most == _LONGEST else f" to {self.most}"
        return f"a whole number from {self.least}{most}"


@frozen
class MetricsModeText:
    """A metrics mode as text: none, counts, truncate(<length>) or full."""

    expected: str = "none, counts, truncate(<length>) or full"

    def fault(self, text: str) -> str | None:
        return None if self.parse(text) is not None else self.expected

    def parse(self, text: str) -> str | None:
        mode = text.strip().lower()
        return mode if re.fullmatch(r"none|counts|full|truncate\(0*[1-9][0-9]*\)", mode) else None


@frozen
class Folder:
    """The location of a folder; an empty one that is there stands for none."""

    expected: str = "the location of a folder"

    def fault(self, text: str) -> str | None:
        return None if text.strip() and "\0" not in text else self.expected

    def parse(self, text: str) -> str | None:
        return text or None


@frozen
class NameMappingJson:
    """A name mapping as JSON."""

    expected: str = "a name mapping as JSON"

    def fault(self, text: str) -> str | None:
        try:
            self.parse(text)
        except ValidationError as e:
            return f"{self.expected} ({e})"
        return None

    def parse(self, text: str) -> NameMapping:
        """The name mapping of a text. Raises ValidationError where it is none."""
        from icecore.engine.spec.name_mapping import NameMapping

        return NameMapping.from_json(text)


@frozen
class Unsupported:
    """A property that may not be set, since this engine can't do what it asks for."""

    expected: str

    def fault(self, text: str) -> str | None:
        return self.expected

    def parse(self, text: str) -> str:
        return text
