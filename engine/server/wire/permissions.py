"""Permissions: the holder of a token, by the `Authorization` header, and whether its token grants what it asks for."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ForbiddenError, NotAuthorizedError
from icecore.engine.server.auth.access_tokens import AccessTokens, Principal
from icecore.engine.server.auth.grants import is_allowed
from icecore.engine.server.wire.call import Call, levels
from icecore.engine.server.wire.endpoint import Endpoint


def principal_of(tokens: AccessTokens, headers: Mapping[str, str]) -> Principal:
    """The holder of the token that headers show, as a bearer or as a browser's password.

    Raises NotAuthorizedError, AuthenticationTimeoutError.
    """
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic" and (password := basic_password(secret)):
        return tokens.principal(password)
    if (shown := bearer(headers)) is None:
        raise NotAuthorizedError("this server asks for a token: Authorization: Bearer TOKEN")
    return tokens.principal(shown)


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token that headers show as a bearer; None where they show none."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return (secret.strip() or None) if scheme.lower() == "bearer" else None


def basic_password(encoded: str) -> str | None:
    """The password of a Basic authorization; None where there is none."""
    return basic_name_and_password(encoded)[1]


def basic_name_and_password(encoded: str) -> tuple[str | None, str | None]:
    """The name and the password of a Basic authorization; None for one that is missing."""
    try:
        name, _, password = base64.b64decode(encoded).decode().partition(":")
    except (binascii.Error, ValueError):
        return None, None
    return unquote(name) or None, unquote(password) or None


def check_origin(call: Call, asks_for_tokens: bool) -> None:
    """Raises ForbiddenError for a request that a page of another site makes a browser send.

    Without tokens anyone on this machine is let in, so the `Host` is checked too: other sites' names may lead here.
    """
    host, origin = call.headers.get("host", ""), call.headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise ForbiddenError(f"a page of {origin[:100]} has no say here")
    if call.serving.settings.asks_for_tokens is None and not asks_for_tokens and not _is_here(host):
        raise ForbiddenError(f"this server is not called {host[:100]!r}: use 127.0.0.1, or tokens")


def _is_here(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or "localhost"
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def check_grants(principal: Principal, endpoint: Endpoint, call: Call) -> None:
    """Raises ForbiddenError unless a token grants an operation in every namespace that it is about."""
    level = endpoint.level
    for namespace in _namespaces(endpoint, call):
        if not is_allowed(principal.grants, level, namespace):
            where = f"in {'.'.join(namespace)!r}" if namespace else "on the whole catalog"
            raise ForbiddenError(f"the token of {principal.name!r} does not grant {level.name.lower()} {where}")


def _namespaces(endpoint: Endpoint, call: Call) -> Iterator[Identifier]:
    """The namespaces that a call is about, by its path or its body; the empty one is the whole catalog."""
    if endpoint.is_of_all:
        # The whole catalog, whatever the body names.
        yield ()
    elif "namespace" in call.names:
        yield call.namespace
    else:
        yield from _of_body(call.body)


def _of_body(body: Mapping[str, Any]) -> Iterator[Identifier]:
    if isinstance(body.get("namespace"), list):
        yield levels(body)
    for key in ("source", "destination"):
        if isinstance(body.get(key), dict):
            yield levels(body[key])
    changes = body.get("table-changes")
    for change in changes if isinstance(changes, list) else ():
        if isinstance(change, dict) and isinstance(change.get("identifier"), dict):
            yield levels(change["identifier"])
