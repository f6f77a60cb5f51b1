"""Tokens that clients get by logging in, by renewing theirs, and for their users."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
from pyiceberg.catalog.rest import RestCatalog
from rest_client import Reply, RestClient
from token_clients import T, asked, made

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.queries.named_queries import query
from icecore.engine.server.auth import access_tokens
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.resources.oauth_tokens import EXCHANGE
from icecore.engine.server.wire import quick_loads


def test_clients_log_in_by_id_and_secret(rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog) -> None:
    token_id, secret = tokens.create("ann", [Grant.parse("manage:*")])
    theirs = RestCatalog(
        "r", uri=rest.uri, credential=f"{token_id}:{secret}", **{"oauth2-server-uri": f"{rest.uri}/v1/oauth/tokens"}
    )
    theirs.create_namespace("made")
    assert catalog.log().to_pylist()[-1]["actor"] == "ann"
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    def exchanged(fields: dict[str, str], **headers: str) -> Reply:
        return rest.ask("POST", "/v1/oauth/tokens", None, form | headers, raw=urlencode(fields).encode())

    basic = base64.b64encode(f"{token_id}:{secret}".encode()).decode()
    got = exchanged({"grant_type": "client_credentials"}, Authorization=f"Basic {basic}").json["access_token"]
    by_secret = {"grant_type": "client_credentials", "client_secret": secret}
    for named in ({"client_id": token_id}, {"client_id": "ann"}, {}):
        assert exchanged(by_secret | named).status == 200
    another, _ = tokens.create("bob", [Grant.parse("read:*")])
    for name in (another, "bob", "wrong"):
        basic = base64.b64encode(f"{name}:{secret}".encode()).decode()
        for told in (
            exchanged(by_secret | {"client_id": name}),
            exchanged({"grant_type": "client_credentials"}, Authorization=f"Basic {basic}"),
        ):
            assert (told.status, told.json["error"]) == (401, "invalid_client"), "RFC 6749, section 5.2"
    exchange = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": got}
    again = exchanged(exchange).json["access_token"]
    assert asked(rest, again, "GET", T).status == 200 and again != got != secret
    tokens.revoke(token_id)
    assert [asked(rest, t, "GET", T).status for t in (got, again, secret)] == [401] * 3
    wrong = [{"grant_type": "client_credentials", "client_secret": "x"}, {"grant_type": "password"}, {}]
    refused = [exchanged(fields) for fields in wrong]
    assert [(r.status, r.json["error"]) for r in refused] == [
        (401, "invalid_client"),
        (400, "unsupported_grant_type"),
        (400, "invalid_request"),
    ]
    assert refused[0].headers["www-authenticate"].startswith("Basic "), "RFC 6749, section 5.2"
    spent = exchanged(exchange)
    assert (spent.status, spent.json["error"]) == (400, "invalid_request"), "RFC 8693, section 2.2.2"


def test_a_client_whose_token_has_expired_gets_another(
    rest: RestClient, tokens: AccessTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that it expired, and when it will; Java shows the expired one beside its secret."""
    now = [now_ms()]
    monkeypatch.setattr(access_tokens, "now_ms", lambda: now[0])
    token_id, secret = tokens.create("ann", [Grant.parse("read:*")], 7_200_000)
    _, others = tokens.create("bob", [Grant.parse("read:*")])

    def exchanged(shown: str, **fields: str) -> Reply:
        basic = base64.b64encode(shown.encode()).decode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Basic {basic}"}
        return rest.ask("POST", "/v1/oauth/tokens", None, headers, raw=urlencode(fields).encode())

    by_secret, exchange = {"grant_type": "client_credentials"}, {"grant_type": EXCHANGE}
    told = exchanged(f"{token_id}:{secret}", **by_secret).json
    got = told["access_token"]
    eve, _ = tokens.derive(tokens.principal(secret), 3_600_000, "eve via ann")
    now[0] += 3_601_000
    adam, _ = tokens.derive(tokens.principal(secret), 3_600_000, "adam via ann")
    later = exchanged(f"{token_id}:{secret}", **by_secret).json
    assert (told["expires_in"], later["expires_in"]) == (3600, 3599), "no longer than the secret"
    assert asked(rest, got, "GET", T).error[:2] == (419, "AuthenticationTimeoutException")
    renewed = exchanged(f"{token_id}:{secret}", **exchange, subject_token=got).json["access_token"]
    assert asked(rest, renewed, "GET", T).status == 200
    assert exchanged(f"{token_id}:{secret}", **exchange, subject_token=eve).status == 200
    wrong = [(f"x:{others}", got), ("x:y", got), (f"{token_id}:{secret}", "z"), (f"x:{adam}", eve), (f"x:{adam}", got)]
    refused = [exchanged(shown, **exchange, subject_token=subject) for shown, subject in wrong]
    assert [(r.status, r.json["error"]) for r in refused] == [(400, "invalid_request")] * 5
    now[0] += access_tokens.KEPT_MS
    assert exchanged(f"bob:{others}", **by_secret).status == 200
    assert asked(rest, got, "GET", T).error[:2] == (401, "NotAuthorizedException"), "it is known no more"


def test_expired_tokens_are_found_without_a_look_at_all(tokens: AccessTokens) -> None:
    """Each time that a client gets one; a client that speaks for its users gets thousands a day."""
    made(tokens, "read:*")
    asked_for = f"EXPLAIN QUERY PLAN {query(access_tokens.TOKENS, 'drop_expired')}"
    (step,) = tokens._store.connection().execute(asked_for, {"before_ms": 0})
    assert "access_token_expiry" in step["detail"]


def test_a_token_that_is_renewed_is_good_for_another_hour(
    rest: RestClient, tokens: AccessTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with the one before, so that Java's clients, who renew theirs and show no secret, had an hour in all."""
    now = [now_ms()]
    for module in (access_tokens, quick_loads):
        monkeypatch.setattr(module, "now_ms", lambda: now[0])
    _, got = tokens.create("ann", [Grant.parse("read:*")], 9_000_000)
    lifetimes = []
    for _ in range(4):
        fields = {"grant_type": EXCHANGE, "subject_token": got}
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        told = rest.ask("POST", "/v1/oauth/tokens", None, form, raw=urlencode(fields).encode()).json
        got = told["access_token"]
        lifetimes.append(told["expires_in"])
        now[0] += 1000 * (told["expires_in"] - 300)
        assert asked(rest, got, "GET", T).status == 200
    assert lifetimes == [3600, 3600, 2400, 300], "until the secret ends that it was made by"
    now[0] += 301_000
    assert asked(rest, got, "GET", T).status == 419


def test_a_client_speaks_for_its_users(rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog) -> None:
    """As Trino with `session=USER`: by an unsecured JWT and its own token, whose grants the user's has."""
    secret = made(tokens, "manage:people", name="trino")

    def jwt(head: dict[str, str], claims: dict[str, Any], signature: str = "") -> str:
        parts = [base64.urlsafe_b64encode(orjson.dumps(p)).decode().rstrip("=") for p in (head, claims)]
        return ".".join([*parts, signature])

    def exchanged(subject: str, actor: str, **headers: str) -> Reply:
        fields = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": subject}
        fields |= {"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "actor_token": actor}
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        return rest.ask("POST", "/v1/oauth/tokens", None, form | headers, raw=urlencode(fields).encode())

    eve = jwt({"alg": "none"}, {"sub": "eve", "iss": "483"})
    got = exchanged(eve, "", Authorization=f"Bearer {secret}").json["access_token"]
    assert exchanged(eve, secret).status == 200
    assert asked(rest, got, "POST", "/v1/namespaces", {"namespace": ["people", "x"]}).status == 200
    assert catalog.log().to_pylist()[-1]["actor"] == "eve via trino"
    assert asked(rest, got, "GET", T).status == 403
    longer = exchanged(jwt({"alg": "none"}, {"sub": "x" * 200}), got).json["access_token"]
    longer = exchanged(jwt({"alg": "none"}, {"sub": "y" * 200}), longer).json["access_token"]
    assert exchanged(jwt({"alg": "none"}, {"sub": "z" * 200}), longer).status == 400, "names of names end"
    assert exchanged(longer, "").status == 200, "it is renewed"
    tokens.revoke("trino")
    assert asked(rest, got, "GET", "/v1/namespaces/people").status == 401
    other = made(tokens, "manage:*", name="other")
    signed, none = jwt({"alg": "HS256"}, {"sub": "eve"}, "c2ln"), jwt({"alg": "none"}, {"sub": " "})
    for subject, actor in ((eve, ""), (eve, "x"), (eve, eve), (signed, other), (none, other), ("..", other)):
        refused = exchanged(subject, actor)
        assert (refused.status, refused.json["error"]) == (400, "invalid_request")
