"""The answers of requests by their idempotency keys, stored in the transaction of the event that each one made.

So a request that was cut off after its COMMIT is answered as carried out when it comes again.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from icecore.engine import errors
from icecore.engine.common.ids import now_ms
from icecore.engine.common.stored_json import stored_json
from icecore.engine.errors import CommitStateUnknownError, IcecoreError, ReusedKeyError
from icecore.engine.events.event import Event
from icecore.engine.events.keyed_request import KeyedRequest
from icecore.engine.log.sqlite_file import SqliteFile, run_script
from icecore.engine.queries.named_queries import query

REQUEST_KEYS = "log/request_keys.sql"
DEFAULT_LIFETIME_MS = 30 * 60 * 1000
CARRIED_OUT = 200


@frozen
class StoredAnswer:
    """The outcome of a request: its HTTP status, and the positions of the events that it made, None where it made none.

    `answer` has the words that it was answered in, where the log alone could not say them again.
    """

    status: int
    first_position: int | None
    last_position: int | None
    answer: str | None

    def error(self) -> IcecoreError | None:
        """The error that it was refused with; None where it was carried out."""
        if self.status < 400:
            return None
        told = stored_json(self.answer or "{}", dict, "a stored answer")
        kind = getattr(errors, str(told.get("error")), IcecoreError)
        return kind(told.get("message")) if issubclass(kind, IcecoreError) else IcecoreError(told.get("message"))


class RequestKeys:
    """The table of keys. It is made with the first of them, so that logs without have none."""

    def __init__(self, log: SqliteFile) -> None:
        self._log = log
        self._are_there = False

    def find(self, request: KeyedRequest) -> StoredAnswer | None:
        """The outcome of the request before; None where it is new.

        Raises ReusedKeyError where the key was that of another request, or somebody else's of a refused request, and
        CommitStateUnknownError where it was somebody else's of a request that was carried out: what it asked for
        stands.
        """
        found = None
        if self._exist():
            found = self._log.row(REQUEST_KEYS, "find", idempotency_key=request.key, now_ms=now_ms())
        if found is None:
            return None
        asked, _, asker = found["request_sha256"].partition(" ")
        if (found["operation"], asked) != (request.operation, request.request_sha256):
            what = "with another body" if found["operation"] == request.operation else f"for {found['operation']}"
            raise ReusedKeyError(f"the idempotency key {request.key!r} was used {what} before, not for this request")
        if asker not in ("", request.asker):
            text = f"the idempotency key {request.key!r} was used by somebody else before, for a request like this one"
            raise (ReusedKeyError if found["first_position"] is None else CommitStateUnknownError)(text)
        return StoredAnswer(*(found[n] for n in ("status", "first_position", "last_position", "answer")))

    def has(self, key: str) -> bool:
        """Whether any request was answered under a key."""
        return self._exist() and self._log.row(REQUEST_KEYS, "find", idempotency_key=key, now_ms=now_ms()) is not None

    def put(self, request: KeyedRequest, status: int, answer: str | None, events: Sequence[Event] = ()) -> None:
        """Stores an answer, and drops those that expired, inside of a write transaction."""
        if not self._exist():
            run_script(self._log.connection(), query(REQUEST_KEYS, "schema"))
        self._log.execute(REQUEST_KEYS, "drop_expired", now_ms=now_ms())
        self._log.execute(
            REQUEST_KEYS,
            "put",
            idempotency_key=request.key,
            operation=request.operation,
            request_sha256=f"{request.request_sha256} {request.asker}".rstrip(),
            status=status,
            first_position=events[0].position if events else None,
            last_position=events[-1].position if events else None,
            answer=answer,
            expires_at_ms=request.expires_at_ms,
        )

    def forget(self, text: str | None = None) -> bool:
        """Drops the answers in words that have a text, by default all; returns whether there were any."""
        return self._exist() and self._log.execute(REQUEST_KEYS, "drop_answers", text=text).rowcount > 0

    def _exist(self) -> bool:
        # Not remembered inside of a transaction, which may be rolled back.
        if not self._are_there:
            found = self._log.row(REQUEST_KEYS, "has_keys") is not None
            self._are_there = found and not self._log.connection().in_transaction
            return found
        return True
