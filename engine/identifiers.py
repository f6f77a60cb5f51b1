"""Names of namespaces, tables and views: tuples, or dotted strings."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

from icecore.engine.errors import ValidationError

Identifier = tuple[str, ...]
IdentifierLike = str | tuple[str, ...]
MAX_NAME = 255
# Linux takes 255 bytes; room is left for a suffix.
MAX_FOLDER_NAME = 200


def namespace_tuple(namespace: IdentifierLike) -> Identifier:
    """A namespace as a tuple. Raises ValidationError for an empty one, or levels that hold a dot."""
    parts = tuple(namespace.split(".")) if isinstance(namespace, str) else tuple(namespace)
    if not parts:
        raise ValidationError("a namespace needs a name")
    for part in parts:
        _check_part(part, "namespace")
        if "." in part:
            raise ValidationError(f"a namespace level can't hold a dot, found {part!r}")
    return parts


def identifier_tuple(identifier: IdentifierLike) -> Identifier:
    """The name of a table or view as (namespace levels..., name); at least one level and a name.

    Given as a tuple, the last part may hold dots. Raises ValidationError.
    """
    parts = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    if len(parts) < 2:
        raise ValidationError(f"{identifier!r} needs a namespace and a name, as in 'namespace.table'")
    _check_part(parts[-1], "table")
    return (*namespace_tuple(parts[:-1]), parts[-1])


def _check_part(part: object, what: str) -> None:
    if not isinstance(part, str) or not part:
        raise ValidationError(f"a {what} name must be a string that is not empty, found {part!r}")
    if len(part) > MAX_NAME:
        raise ValidationError(f"a {what} name can have {MAX_NAME} characters, found {len(part)}")
    if "\x00" in part:
        raise ValidationError(f"a {what} name can't hold a NUL character: {part!r}")
    try:
        part.encode()
    except UnicodeEncodeError as e:
        raise ValidationError(f"a {what} name must be valid Unicode: {part!r}") from e


def folder_name(part: str) -> str:
    """A name as one path segment: whatever could leave the folder or break a URI is percent-encoded.

    What is too long for a file system is cut, and ends in a hash of the whole name.
    """
    encoded = quote(part, safe=" -_.,()+=@!$&';")
    if set(part) == {"."}:
        return encoded.replace(".", "%2E")
    if len(encoded) > MAX_FOLDER_NAME:
        digest = hashlib.sha256(part.encode()).hexdigest()[:16]
        return f"{encoded[: MAX_FOLDER_NAME - len(digest) - 1]}-{digest}"
    return encoded
