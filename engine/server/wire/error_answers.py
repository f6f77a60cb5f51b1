"""Errors as the REST document's `ErrorModel`: status, the Java class that clients look for, and the message."""

from __future__ import annotations

import traceback
import uuid
import warnings
from collections.abc import Callable

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import IcecoreError
from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.refusal import Refusal

_BEARER = {401: "invalid_token", 419: "invalid_token"}
RETRY_AFTER_S = "2"


def error_answer(
    error: BaseException,
    refusal: Refusal = Refusal.AS_IT_IS,
    *,
    is_stored: bool = False,
    may_read: Callable[[Identifier], bool] = lambda _: True,
) -> Answer:
    """The answer that tells of an error. For an unforeseen one it tells the class, and the id of a warning with all.

    `is_stored` says that something was committed before the request failed. Namespaces that the client may not read are
    not told.
    """
    if isinstance(error, IcecoreError):
        return named_error(*refusal.answer_to(error, is_stored=is_stored), error.told(may_read))
    reference = uuid.uuid4().hex[:12]
    told = "".join(traceback.format_exception(error))
    warnings.warn(f"the server failed on a request ({reference}):\n{told}", stacklevel=2)
    return named_error(500, IcecoreError.rest_type, f"{type(error).__name__}; the server's log tells of {reference}")


def named_error(status: int, kind: str, message: str) -> Answer:
    """The `ErrorModel` of a status and the Java class of an error."""
    headers = {"retry-after": RETRY_AFTER_S} if status == 429 else {}
    if status in _BEARER:
        headers = {"www-authenticate": f'Bearer realm="icecore", error="{_BEARER[status]}"'}
    return json_answer({"error": {"message": message, "type": kind, "code": status}}, status, headers)
