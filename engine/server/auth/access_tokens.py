"""The tokens of a warehouse: made, found by what a client shows, and revoked. Their text is told once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import orjson
from attrs import frozen

from icecore.engine.common.ids import now_ms
from icecore.engine.errors import AuthenticationTimeoutError, NotAuthorizedError, NotFoundError, ValidationError
from icecore.engine.log.sqlite_file import run_script
from icecore.engine.log.store import EventStore
from icecore.engine.queries.named_queries import query
from icecore.engine.server.auth.grants import Grant

TOKENS = "server/tokens.sql"
NEVER = 1 << 62
KEPT_MS = 7 * 24 * 60 * 60 * 1000
"""The time for which an expired token of a client is kept, so that the client is told that it has expired."""


@frozen
class Principal:
    """The holder of a token, whose name is the actor of its commits.

    A token that was derived from a secret can be renewed until `ends_at_ms`, when that secret expires.
    """

    token_id: str
    name: str
    grants: tuple[Grant, ...]
    expires_at_ms: int = NEVER
    ends_at_ms: int = NEVER


@frozen
class TokenRow:
    """A token as it is listed; times are milliseconds since the epoch."""

    token_id: str
    name: str
    grants: tuple[Grant, ...]
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None

    @property
    def times(self) -> tuple[int | None, ...]:
        """The times at which it was made, ends and was revoked."""
        return self.created_at_ms, self.expires_at_ms, self.revoked_at_ms


class AccessTokens:
    """The tokens in a warehouse's log file."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    @property
    def are_used(self) -> bool:
        """Whether any token was ever made. If so, clients must show one, even where all are revoked."""
        is_there = self._store.row(TOKENS, "has_tokens") is not None
        return is_there and self._store.row(TOKENS, "any_named") is not None

    def create(self, name: str, grants: Sequence[Grant], lifetime_ms: int | None = None) -> tuple[str, str]:
        """Makes a token; returns its id and its text, which nobody can read again. Raises ValidationError."""
        if not name or not name.isprintable() or len(name) > 200:
            raise ValidationError(f"a token needs a name that can be printed, found {name[:60]!r}")
        if not grants:
            raise ValidationError("a token needs at least one grant, as in read:sales or manage:*")
        return self._put(name, grants, None if lifetime_ms is None else now_ms() + lifetime_ms, None)

    def derive(self, principal: Principal, lifetime_ms: int, name: str) -> tuple[str, int]:
        """A new token with a principal's grants, which ends no later than its secret, and its lifetime in ms."""
        lifetime_ms = min(lifetime_ms, principal.ends_at_ms - now_ms())
        return self._put(name, principal.grants, now_ms() + lifetime_ms, principal.token_id)[1], lifetime_ms

    def _put(self, name: str, grants: Sequence[Grant], expires: int | None, parent: str | None) -> tuple[str, str]:
        """Stores a new token. Raises ValidationError where `parent` is None and an unrevoked token has the name."""
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        with self._store.write():
            run_script(self._store.connection(), query(TOKENS, "schema"))
            if parent is None and any(t.name == name and t.revoked_at_ms is None for t in self.all()):
                raise ValidationError(f"there is a token {name!r} already; revoke it first")
            self._store.execute(TOKENS, "drop_expired", before_ms=now_ms() - KEPT_MS)
            self._store.execute(
                TOKENS,
                "put",
                token_id=token_id,
                name=name,
                sha256=_sha256(secret),
                grants=orjson.dumps([g.to_dict() for g in grants]).decode(),
                created_at_ms=now_ms(),
                expires_at_ms=expires,
                parent_id=parent,
            )
        return token_id, secret

    def principal(self, secret: str) -> Principal:
        """The holder of a token. Raises NotAuthorizedError, AuthenticationTimeoutError where it has expired."""
        found = self.known(secret)
        if found.expires_at_ms <= now_ms():
            raise AuthenticationTimeoutError(f"the token of {found.name!r} has expired")
        return found

    def known(self, secret: str) -> Principal:
        """The holder of a token, which may have expired. Raises NotAuthorizedError."""
        known = self._store.row(TOKENS, "has_tokens") is not None
        found = self._store.row(TOKENS, "of_hash", sha256=_sha256(secret)) if known else None
        if found is None or found["revoked_at_ms"] is not None:
            raise NotAuthorizedError("the token is not one of this warehouse, or was revoked")
        grants = tuple(map(Grant.from_dict, orjson.loads(found["grants"])))
        made_by, times = found["parent_id"] or found["token_id"], (found["expires_at_ms"], found["ends_at_ms"])
        return Principal(made_by, found["name"], grants, *times)

    def all(self) -> list[TokenRow]:
        """The tokens that were made by name, oldest first, revoked ones too."""
        if self._store.row(TOKENS, "has_tokens") is None:
            return []
        return [
            TokenRow(
                r["token_id"],
                r["name"],
                tuple(map(Grant.from_dict, orjson.loads(r["grants"]))),
                r["created_at_ms"],
                r["expires_at_ms"],
                r["revoked_at_ms"],
            )
            for r in self._store.rows(TOKENS, "named")
        ]

    def revoke(self, name: str) -> None:
        """Ends a token, by its name or id, and all that were derived from it. Raises NotFoundError."""
        with self._store.write():
            run_script(self._store.connection(), query(TOKENS, "schema"))
            if not self._store.execute(TOKENS, "revoke", name=name, revoked_at_ms=now_ms()).rowcount:
                raise NotFoundError(f"there is no token {name!r} that is not revoked")


def _sha256(secret: str) -> str:
    # Tokens are random and long, so that a hash without salt and work gives nothing to guess.
    return hashlib.sha256(secret.encode()).hexdigest()
