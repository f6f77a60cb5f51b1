"""Requests under an `Idempotency-Key`, which are carried out once however often they come."""

from __future__ import annotations

import hashlib
import re

import orjson

from icecore.engine.common.ids import now_ms
from icecore.engine.errors import ValidationError
from icecore.engine.events.keyed_request import KeyedRequest
from icecore.engine.log.request_keys import DEFAULT_LIFETIME_MS
from icecore.engine.repository.answer_once import answer_once
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint

HEADER = "idempotency-key"
LIFETIME = "PT30M"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def answered(endpoint: Endpoint, call: Call, path: str, raw: bytes) -> Answer:
    """The answer of an operation; for a change under a key, the answer of the first time.

    Raises ValidationError for a key that is no UUID and for a dry run where there is none, ReusedKeyError for the key
    of another request, CommitStateUnknownError for the key of another token's request that was carried out, and what
    the operation raises.
    """
    is_keyed = endpoint.has_keys or (endpoint.is_write and not endpoint.is_open)
    key = call.headers.get(HEADER) if is_keyed else None
    if key is not None and _UUID.fullmatch(key) is None:
        raise ValidationError(f"an Idempotency-Key is a UUID, found {key[:60]!r}")
    if not endpoint.is_write or endpoint.is_open:
        return endpoint.answer(call)
    if call.is_dry_run:
        if not endpoint.has_dry_run:
            raise ValidationError(f"{endpoint.documented} has no dry run; only commits to tables have")
        return endpoint.answer(call)
    if key is None:
        return endpoint.answer(call)
    parts = [
        path.encode("latin-1", "replace"),
        raw,
        *([orjson.dumps(sorted(call.query.items()))] if call.query else ()),
    ]
    asked = hashlib.sha256(b"\0".join(parts)).hexdigest()
    asker = "" if call.principal is None else hashlib.sha256(call.principal.name.encode()).hexdigest()
    request = KeyedRequest(key.lower(), endpoint.documented, asked, now_ms() + DEFAULT_LIFETIME_MS, asker)
    store = call.catalog._warehouse.store
    return answer_once(
        store,
        request,
        lambda: endpoint.answer(call),
        lambda stored: endpoint.again(call, stored),
        lambda error: error.told(call.may_read),
    )
