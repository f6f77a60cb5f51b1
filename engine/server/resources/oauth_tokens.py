"""Access tokens by OAuth2, for clients that have an id and a secret. Spec: the REST document's getToken, RFC 6749 and
RFC 8693 for what is refused.

The secret is a token of the warehouse; what it is exchanged for has the same grants and ends sooner, and with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from icecore.engine.errors import NotAuthorizedError
from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.permissions import basic_password

LIFETIME_S = 3600
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


def get_token(call: Call) -> Answer:
    """A token for an hour, by the secret of a client or by a token that it has."""
    match call.body.get("grant_type"):
        case "client_credentials":
            secret = call.body.get("client_secret") or _basic_secret(call.headers.get("authorization", ""))
        case grant if grant == EXCHANGE:
            secret = call.body.get("subject_token")
        case None:
            return _refused(400, "invalid_request", "the request has no grant_type")
        case _:
            return _refused(400, "unsupported_grant_type", "client_credentials and token exchange are understood")
    if not secret:
        return _refused(400, "invalid_request", "the request has no client_secret, or no subject_token")
    try:
        principal = call.serving.tokens.principal(str(secret))
    except NotAuthorizedError as e:
        if call.body["grant_type"] == EXCHANGE:
            return _refused(400, "invalid_request", str(e))
        return _refused(401, "invalid_client", str(e), {"www-authenticate": 'Basic realm="icecore"'})
    token = call.serving.tokens.derive(principal, LIFETIME_S * 1000)
    told = {"access_token": token, "token_type": "bearer", "expires_in": LIFETIME_S, "issued_token_type": ACCESS_TOKEN}
    return json_answer(told, headers={"cache-control": "no-store"})


def _basic_secret(header: str) -> str | None:
    scheme, _, encoded = header.partition(" ")
    return basic_password(encoded) if scheme.lower() == "basic" else None


def _refused(status: int, kind: str, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    return json_answer({"error": kind, "error_description": text}, status, headers)


ENDPOINTS = (Endpoint("POST", "/oauth/tokens", get_token, is_write=True, has_prefix=False, is_open=True, is_form=True),)
