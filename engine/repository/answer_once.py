"""Requests that are carried out once, however often they come: a repeated one gets the first one's answer.

Final refusals are kept too, others are not, as the next try may end otherwise. Spec: the REST document's
`Idempotency-Key`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import orjson

from icecore.engine.errors import IcecoreError, ReadOnlyError, StorageError
from icecore.engine.events.commit_watch import note_stored
from icecore.engine.events.event import TABLE_ADOPTED
from icecore.engine.events.keyed_request import KeyedRequest, asked_by
from icecore.engine.log.request_keys import CARRIED_OUT, StoredAnswer
from icecore.engine.log.store import EventStore
from icecore.engine.repository.reused_key import cut_off_call, reused_key

Answer = TypeVar("Answer")


def answer_once(
    store: EventStore,
    request: KeyedRequest,
    make: Callable[[], Answer],
    again: Callable[[StoredAnswer], Answer],
    told: Callable[[IcecoreError], str] | None = str,
) -> Answer:
    """Answers a request by `make`; if its key was answered before, by `again` or with the same error.

    The first commit in `make` has the key, and the answer is stored with it. A refusal is kept in the words that `told`
    has for the client; without `told`, a refused request is tried again under its key. Raises ReusedKeyError where the
    key was another request's, or has expired, CommitStateUnknownError where its commit was cut off and stands all the
    same, and what `make` raises.
    """
    if (stored := answer_before(store, request)) is not None:
        return _repeated(stored, again)
    try:
        with asked_by(request):
            answer = make()
    except IcecoreError as e:
        if request.is_stored:
            raise
        if told is not None and is_final(e):
            words = orjson.dumps({"error": type(e).__name__, "message": told(e)}).decode()
            first = _keep(store, request, e.http_status, words)
        else:
            first = store.request_keys.find(request)
        if first is not None:
            return _repeated(first, again)
        raise
    if not request.is_stored and (first := _keep(store, request, CARRIED_OUT, request.answer)) is not None:
        # The same request made the change meanwhile, so that here was nothing left to do.
        return _repeated(first, again)
    return answer


def answer_before(store: EventStore, request: KeyedRequest) -> StoredAnswer | None:
    """The answer that a request had before under its key; None where it is new.

    Raises ReusedKeyError and CommitStateUnknownError as `answer_once`.
    """
    if (stored := store.request_keys.find(request)) is not None:
        return stored
    if (event := store.event_by_idempotency_key(request.key)) is None:
        return None
    if (stored := store.request_keys.find(request)) is None:
        raise cut_off_call(event) if event.kind == TABLE_ADOPTED else reused_key(event)
    return stored


def is_final(error: IcecoreError) -> bool:
    """Whether a request that was refused with this error will be refused whenever it comes again.

    Errors of storage, of a read-only warehouse and of lost races that a retry may win are not final.
    """
    if error.retryable or isinstance(error, ReadOnlyError | StorageError):
        return False
    return 400 <= error.http_status < 500


def _keep(store: EventStore, request: KeyedRequest, status: int, answer: str | None) -> StoredAnswer | None:
    """Stores the answer of a request that made no event; returns the one that was stored meanwhile, if any."""
    with store.write():
        if (first := store.request_keys.find(request)) is None:
            store.request_keys.put(request, status, answer)
    request.is_stored = True
    return first


def _repeated(stored: StoredAnswer, again: Callable[[StoredAnswer], Answer]) -> Answer:
    if (error := stored.error()) is not None:
        raise error
    if stored.last_position is not None:
        note_stored()
    return again(stored)
