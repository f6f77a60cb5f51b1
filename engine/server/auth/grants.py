"""Grants of tokens, by namespace. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from attrs import frozen

from icecore.engine.common.identifiers import Identifier, namespace_tuple
from icecore.engine.common.json_reader import get
from icecore.engine.errors import ValidationError

EVERYWHERE = "*"


class Level(IntEnum):
    """A level of grants: each has those before it.

    `read` lists, loads and plans; `write` commits, and creates tables and views; `manage` drops, renames, registers and
    changes namespaces.
    """

    READ = 1
    WRITE = 2
    MANAGE = 3

    @classmethod
    def of(cls, name: str) -> Level:
        """The level of a name. Raises ValidationError."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValidationError(f"a grant is read, write or manage, found {name[:60]!r}") from None


@frozen
class Grant:
    """A level in a namespace and all inside of it; the empty namespace is the whole catalog."""

    namespace: Identifier
    level: Level

    @classmethod
    def parse(cls, text: str) -> Grant:
        """The grant of a text such as `read:sales.orders` or `manage:*`. Raises ValidationError."""
        level, _, where = text.partition(":")
        if not where:
            raise ValidationError(f"a grant is LEVEL:NAMESPACE, as in read:sales or manage:*, found {text[:60]!r}")
        return cls(() if where == EVERYWHERE else namespace_tuple(where), Level.of(level))

    def __str__(self) -> str:
        return f"{self.level.name.lower()}:{'.'.join(self.namespace) or EVERYWHERE}"

    def to_dict(self) -> dict[str, Any]:
        """The grant as it is stored."""
        return {"namespace": list(self.namespace), "level": self.level.name.lower()}

    @classmethod
    def from_dict(cls, obj: Any) -> Grant:
        """The grant as it was stored. Raises ValidationError."""
        return cls(tuple(get(obj, "namespace", list, "a grant")), Level.of(get(obj, "level", str, "a grant")))


def is_allowed(grants: Iterable[Grant], level: Level, namespace: Identifier) -> bool:
    """Whether the grants give a level in a namespace."""
    return any(g.level >= level and namespace[: len(g.namespace)] == g.namespace for g in grants)


def is_visible(grants: Iterable[Grant], namespace: Identifier) -> bool:
    """Whether a namespace is shown to the holder of the grants: those that it may read, and the levels above them."""
    return any(
        namespace[: len(g.namespace)] == g.namespace or g.namespace[: len(namespace)] == namespace for g in grants
    )
