"""Lists of names, whole or in pages. Spec: the REST document's PageToken."""

from __future__ import annotations

from functools import partial
from typing import Any

from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.catalog.clients.name_pages import MOST, NameKind, list_page, page_of
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import number_in
from icecore.engine.errors import ValidationError
from icecore.engine.server.auth.grants import is_visible
from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call

MOST_OF_A_PAGE = 10_000


def listed(call: Call, kind: NameKind, namespace: Identifier) -> tuple[list[Identifier], dict[str, Any]]:
    """The names of the page that a query asks for, and the token of the next one if there is one.

    Without token and size they are all names. Namespaces are those that the client may see; a client that may list
    tables and views sees them all. Raises ValidationError, NoSuchNamespaceError.
    """
    token, size = call.query.get("pageToken"), page_size(call)
    most = MOST if token is None and size is None else size or MOST_OF_A_PAGE
    shows = None
    if kind == "namespace" and call.principal is not None:
        shows = partial(is_visible, call.principal.grants)
    if call.past is None:
        page = list_page(call.catalog, kind, namespace, most, token, shows=shows)
    else:
        then = (n for n in names_then(call.past, kind, namespace) if shows is None or shows(n))
        page = page_of(then, kind, namespace, most, token)
    return list(page.names), {} if page.next_token is None else {"next-page-token": page.next_token}


def identifiers_page(call: Call, kind: NameKind) -> Answer:
    """The page of tables or views of the namespace that a query asks for. Raises as `listed` does."""
    names, after = listed(call, kind, call.namespace)
    return json_answer({"identifiers": [{"namespace": n[:-1], "name": n[-1]} for n in names], **after})


def names_then(past: CatalogAt, kind: NameKind, namespace: Identifier) -> list[Identifier]:
    """The names directly inside of a namespace as they were. Raises NoSuchNamespaceError."""
    if namespace:
        past.load_namespace_properties(namespace)
    if kind == "namespace":
        inside = (n for n in past.list_namespaces() if len(n) > len(namespace) and n[: len(namespace)] == namespace)
        return sorted({n[: len(namespace) + 1] for n in inside})
    return past.list_tables(namespace) if kind == "table" else past.list_views(namespace)


def page_size(call: Call) -> int | None:
    """The number of names that a query wants in a page, None where it does not say. Raises ValidationError."""
    text = call.query.get("pageSize")
    if text is None:
        return None
    if not (size := number_in(text)):
        raise ValidationError(f"pageSize must be a whole number from 1, found {text[:60]!r}")
    return min(size, MOST_OF_A_PAGE)
