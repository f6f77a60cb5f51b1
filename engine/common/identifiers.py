"""Names of namespaces, tables and views: tuples, or dotted strings; and whole numbers, as of positions and ids."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from icecore.engine.errors import MissingNamespaceError, ValidationError

Identifier = tuple[str, ...]
IdentifierLike = str | tuple[str, ...]
MAX_NAME = 255
# A level in double quotes or backticks, in which a doubled one stands for one, or a level without quotes.
_LEVEL = re.compile(r'"((?:[^"]|"")*)"(?=\.|\Z)|`((?:[^`]|``)*)`(?=\.|\Z)|([^.]*)')
_SEPARATOR, _NO_WORD = re.compile(r"[/\\?#]"), re.compile(r"[^A-Za-z0-9-]")
# Linux takes 255 bytes; room is left for a suffix.
MAX_FOLDER_NAME = 200


def namespace_tuple(namespace: IdentifierLike) -> Identifier:
    """A namespace as a tuple. Raises ValidationError for an empty one, or levels that hold a dot."""
    parts = name_parts(namespace)
    if not parts:
        raise ValidationError("a namespace needs a name")
    for part in parts:
        _check_part(part, "namespace")
        if "." in part:
            raise ValidationError(f"a namespace level can't hold a dot, found {part!r}")
    return parts


def identifier_tuple(identifier: IdentifierLike) -> Identifier:
    """The name of a table or view as (namespace levels..., name); at least one level and a name.

    The last part may hold dots where it is in double quotes or backticks, or the name a tuple. Raises ValidationError;
    for a name without a namespace it is a MissingNamespaceError.
    """
    parts = name_parts(identifier)
    if len(parts) < 2:
        message = f"{identifier!r} needs a namespace and a name, as in 'namespace.table'"
        raise MissingNamespaceError(message, parts[0]) if parts else ValidationError(message)
    _check_part(parts[-1], "table")
    return (*namespace_tuple(parts[:-1]), parts[-1])


def name_parts(identifier: object) -> Identifier:
    """The levels of any name, as it was given; text is parted by dots outside of quotes.

    Raises ValidationError where it is no name.
    """
    if isinstance(identifier, str):
        return _levels(identifier)
    if not isinstance(identifier, (tuple, list)):
        raise ValidationError(f"a name must be dotted text or a tuple, found {type(identifier).__name__}")
    return tuple(identifier)


def _levels(text: str) -> Identifier:
    if not ('"' in text or "`" in text):
        return tuple(text.split("."))
    levels, end = list[str](), -1
    while end < len(text):
        found = _LEVEL.match(text, end + 1)
        assert found is not None, "a level without quotes may be empty"
        double, back, plain = found.groups()
        if double is not None:
            levels.append(double.replace('""', '"'))
        elif back is not None:
            levels.append(back.replace("``", "`"))
        else:
            levels.append(plain)
        end = found.end()
    return tuple(levels)


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
    """A name as one path segment, which stays one folder inside of another for engines that decode it too.

    Characters that could break a URI are percent-encoded. A name that is too long for a file system is cut. In one that
    leads elsewhere when decoded, as `..`, all but letters, digits and hyphens become `_`. Both end in a hash of the
    whole name.
    """
    encoded, decoded = quote(part, safe=" -_.,()+=@!$&';"), part
    while (once_more := unquote(decoded)) != decoded:
        decoded = once_more
    if any(set(segment) <= {"."} for segment in _SEPARATOR.split(decoded)):
        encoded = _NO_WORD.sub("_", part)
    elif len(encoded) <= MAX_FOLDER_NAME:
        return encoded
    digest = hashlib.sha256(part.encode()).hexdigest()[:16]
    return f"{encoded[: MAX_FOLDER_NAME - len(digest) - 1]}-{digest}"


def names_of(names: object, what: str) -> tuple[str, ...]:
    """Column names or paths as a tuple; a text alone is one of them. Raises ValidationError, calling them `what`."""
    found = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else (names,)
    for name in found:
        if not isinstance(name, str):
            raise ValidationError(f"{what} must be text, found {type(name).__name__} {str(name)[:60]!r}")
    return found


def whole_number(value: object) -> int | None:
    """The value as an int where it is a whole number, of numpy too; None for any other value, also for a bool.

    SQLite would take a number of numpy, as columns of frames hold them, for bytes, and find nothing by it.
    """
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]  # what is none raises
    except TypeError:
        return None


def checked_number(value: object, what: str) -> int:
    """The whole number that a value is. Raises ValidationError, in which the value is called `what`."""
    found = whole_number(value)
    if found is None:
        raise ValidationError(f"{what} must be a whole number, found {type(value).__name__} {str(value)[:60]!r}")
    return found
