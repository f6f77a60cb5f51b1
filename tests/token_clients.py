"""Requests with tokens, to a server of a warehouse that has tables in two namespaces."""

from __future__ import annotations

from rest_client import Reply, RestClient

from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant

T = "/v1/namespaces/sales%1Forders/tables/t"


def asked(rest: RestClient, secret: str, method: str, path: str, body: object = None) -> Reply:
    """The answer to a request with a token."""
    return rest.ask(method, path, body, {"Authorization": f"Bearer {secret}"} if secret else {})


def made(tokens: AccessTokens, *grants: str, name: str = "ann") -> str:
    """The secret of a new token."""
    return tokens.create(name, [Grant.parse(g) for g in grants])[1]
