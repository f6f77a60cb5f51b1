"""Names in pages, for clients that list a large catalog bit by bit: each page is read by keys, at the cost of its size.

The token of the next page says which list it is of and which name came last. Names that come and go between two pages
move no other one: each name that is there all the time is in exactly one page.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import orjson
from attrs import frozen

from icecore.engine.catalog.catalog_handle import CatalogHandle
from icecore.engine.common.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.errors import ValidationError

NameKind: TypeAlias = Literal["namespace", "table", "view"]
MOST = 1 << 62


@frozen
class NamePage:
    """A page of names, and the token of the next one; None after the last."""

    names: tuple[Identifier, ...]
    next_token: str | None = None


def list_page(
    catalog: CatalogHandle,
    kind: NameKind,
    namespace: IdentifierLike,
    size: int,
    token: str | None = None,
    *,
    shows: Callable[[Identifier], bool] | None = None,
) -> NamePage:
    """The namespaces, tables or views directly inside of a namespace, at most `size`; an empty token is the first page.

    Namespaces are listed at the top too, by an empty name. `shows` is a test of names: number and tokens of the pages
    tell nothing of names that fail it, and the whole rest of the list is then read for each page. Raises
    NoSuchNamespaceError, ValidationError for a size below one or a token that is none of this list.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValidationError(f"a page holds one name or more, found the size {size!r}")
    parent = () if kind == "namespace" and not namespace else namespace_tuple(namespace)
    after = _last_name(token, kind, parent)
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    models = catalog._warehouse.models
    if parent:
        models.namespace_properties(parent)
    # SQLite counts to 2^63.
    size = min(size, MOST)
    most = size + 1 if shows is None else MOST
    if kind == "namespace":
        found = models.inner_namespaces(parent, after, most)
    else:
        found = models.names_after(parent, kind, after, most)
    if shows is not None:
        found = [name for name in found if shows((*parent, name))]
    return _page(kind, parent, found, size)


def page_of(names: Iterable[Identifier], kind: NameKind, parent: Identifier, size: int, token: str | None) -> NamePage:
    """The page that `list_page` would give, made of names that the caller has. Raises ValidationError."""
    after = _last_name(token, kind, parent)
    return _page(kind, parent, sorted(name[-1] for name in names if name[-1] > after), size)


def _page(kind: NameKind, parent: Identifier, found: Sequence[str], size: int) -> NamePage:
    names = tuple((*parent, name) for name in found[:size])
    return NamePage(names, _token(kind, parent, found[size - 1]) if len(found) > size else None)


def _token(kind: NameKind, parent: Identifier, name: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([kind, list(parent), name])).decode().rstrip("=")


def _last_name(token: str | None, kind: NameKind, parent: Identifier) -> str:
    """The name after which a page begins; empty for the first page. Raises ValidationError."""
    if not token:
        return ""
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error) as e:
        raise ValidationError(f"{token!r:.100} is no page token") from e
    match found:
        case [of, list(levels), str(name)] if of == kind and tuple(levels) == parent and name:
            return name
        case _:
            raise ValidationError(f"the page token {token!r:.100} is of another list than the {kind}s of {parent}")
