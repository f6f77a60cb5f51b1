"""Access tokens by OAuth2, for clients that have an id and a secret. Spec: the REST document's getToken, RFC 6749 and
RFC 8693 for what is refused.

The secret is a token of the warehouse. The token that it is exchanged for has the same grants, and ends sooner or
together with it. A client that speaks for its users gets a token for each, by which commits name both.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from icecore.engine.common.json_reader import loads
from icecore.engine.errors import AuthenticationTimeoutError, NotAuthorizedError
from icecore.engine.server.auth.access_tokens import Principal
from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.permissions import basic_name_and_password, bearer

LIFETIME_S = 3600
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
LONGEST_USER = 200
LONGEST_NAME = 500
"""The longest name of a user's token. By it tokens for other users can be asked for, which put their names before."""
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


def get_token(call: Call) -> Answer:
    """A token for an hour, by the secret of a client or by a token that it has, for itself or for one of its users."""
    user = client_id = None
    match call.body.get("grant_type"):
        case "client_credentials":
            named, basic = _basic(call.headers.get("authorization", ""))
            secret, client_id = call.body.get("client_secret") or basic, call.body.get("client_id") or named
        case grant if grant == EXCHANGE:
            secret = call.body.get("subject_token")
            if (user := _user(secret or "")) is not None:
                secret = bearer(call.headers) or call.body.get("actor_token")
        case None:
            return _refused(400, "invalid_request", "the request has no grant_type")
        case _:
            return _refused(400, "unsupported_grant_type", "client_credentials and token exchange are understood")
    if not secret:
        return _refused(400, "invalid_request", "the request has no client_secret, subject_token or actor")
    try:
        principal = _holder(call, str(secret))
        _check_client(principal, client_id)
    except NotAuthorizedError as e:
        if call.body["grant_type"] == EXCHANGE:
            return _refused(400, "invalid_request", str(e))
        return _refused(401, "invalid_client", str(e), {"www-authenticate": 'Basic realm="icecore"'})
    name = principal.name if user is None else f"{user} via {principal.name}"
    if user is not None and len(name) > LONGEST_NAME:
        return _refused(400, "invalid_request", f"the name of who speaks for whom can have {LONGEST_NAME} characters")
    token, lifetime_ms = call.serving.tokens.derive(principal, LIFETIME_S * 1000, name)
    told = {"access_token": token, "token_type": "bearer", "expires_in": lifetime_ms // 1000}
    told["issued_token_type"] = ACCESS_TOKEN
    return json_answer(told, headers={"cache-control": "no-store"})


def _holder(call: Call, token: str) -> Principal:
    """The holder of a token. An expired token is good where its client shows its secret too, as Java's clients do.

    Raises NotAuthorizedError.
    """
    tokens = call.serving.tokens
    try:
        return tokens.principal(token)
    except AuthenticationTimeoutError:
        found, secret = tokens.known(token), _basic_secret(call.headers.get("authorization", ""))
        if secret is None or not _is_of(found, tokens.principal(secret)):
            raise
        return found


def _check_client(principal: Principal, client_id: str | None) -> None:
    """Raises NotAuthorizedError where the `client_id` is neither the id nor the name of the client's secret."""
    if client_id not in (None, principal.token_id, principal.name):
        raise NotAuthorizedError("the secret is not that of the client_id, which is the id or the name of a token")


def _is_of(made: Principal, client: Principal) -> bool:
    """Whether a token was made for this client, or for a user that it speaks for, by the same secret."""
    return made.token_id == client.token_id and f" via {made.name}".endswith(f" via {client.name}")


def _user(token: str) -> str | None:
    """The user that an unsecured JWT names, for whom the client answers; None where the token is no such JWT.

    Spec: RFC 7519, section 6; the REST document's getToken, its second purpose.
    """
    head, _, rest = token.partition(".")
    claims, _, signature = rest.partition(".")
    try:
        told = [loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), "a JWT") for part in (head, claims)]
    except ValueError:
        return None
    user = told[1].get("sub")
    is_named = isinstance(user, str) and 0 < len(user.strip()) <= len(user) <= LONGEST_USER and user.isprintable()
    return user if is_named and told[0].get("alg") == "none" and not signature else None


def _basic_secret(header: str) -> str | None:
    return _basic(header)[1]


def _basic(header: str) -> tuple[str | None, str | None]:
    """The id and the secret that a client shows in the header; None for one that it does not show."""
    scheme, _, encoded = header.partition(" ")
    return basic_name_and_password(encoded) if scheme.lower() == "basic" else (None, None)


def _refused(status: int, kind: str, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    return json_answer({"error": kind, "error_description": text}, status, headers)


ENDPOINTS = (Endpoint("POST", "/oauth/tokens", get_token, is_write=True, has_prefix=False, is_open=True, is_form=True),)
