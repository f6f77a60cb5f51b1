"""Names in paths and queries: percent-encoded, the levels of a namespace apart by 0x1F or a dot."""

from __future__ import annotations

import re
from urllib.parse import unquote

from icecore.engine.common.identifiers import Identifier, namespace_tuple
from icecore.engine.errors import ValidationError

SEPARATOR = "\x1f"
ENCODED_SEPARATOR = "%1F"
JAVA = "Apache Iceberg "
_APART = re.compile(r"[\x1f.]")


def read_namespace(encoded: str) -> Identifier:
    """The levels of a namespace in a path. Raises ValidationError."""
    return namespace_of_text(decoded(encoded))


def namespace_of_text(text: str) -> Identifier:
    """The levels of a namespace, split at 0x1F and at dots, as no level has a dot. Raises ValidationError."""
    return namespace_tuple(tuple(_APART.split(text)))


def spaced(part: str, client: str) -> str:
    """A part of a path with its spaces as %20; `client` is the version that its client sent.

    Java's clients up to Iceberg 1.11 write a space as `+`, and `+` as %2B; later ones write %20. For other clients `+`
    is itself.
    """
    return part.replace("+", "%20") if client.startswith(JAVA) else part


def decoded(encoded: str) -> str:
    """A part of a path, decoded. Raises ValidationError where it is no UTF-8."""
    try:
        return unquote(encoded, errors="strict")
    except UnicodeDecodeError as e:
        raise ValidationError(f"{encoded[:60]!r} is no percent-encoded UTF-8") from e
