"""Pages of names: the names after the one that a page token holds. Spec: the REST document's PageToken."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError

MOST_OF_A_PAGE = 10_000


def page(names: Sequence[Identifier], query: Mapping[str, str]) -> tuple[list[Identifier], dict[str, Any]]:
    """The names of the page that a query asks for, of all in order, and the token of the next one if there is one.

    All names where the query has neither token nor size. Raises ValidationError.
    """
    token, size = query.get("pageToken"), query.get("pageSize")
    if token is None and size is None:
        return list(names), {}
    after = _read_token(token) if token else ()
    most = MOST_OF_A_PAGE if size is None else _read_size(size)
    rest = [n for n in names if n > after]
    return rest[:most], {"next-page-token": _token(rest[most - 1])} if len(rest) > most else {}


def _read_size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValidationError(f"pageSize must be a whole number from 1, found {text[:60]!r}")
    return min(int(text), MOST_OF_A_PAGE)


def _token(name: Identifier) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(name)).decode()


def _read_token(token: str) -> Identifier:
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(level, str) for level in found):
        raise ValidationError(f"{token[:60]!r} is no page token of this server")
    return tuple(found)
