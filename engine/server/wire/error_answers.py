"""Errors as the REST document's `ErrorModel`: status, the Java class that clients look for, and the message."""

from __future__ import annotations

import traceback
import uuid
import warnings

from icecore.engine import errors as err
from icecore.engine.server.wire.answer import Answer, json_answer

_TYPES: dict[type[BaseException], str] = {
    err.NoSuchNamespaceError: "NoSuchNamespaceException",
    err.NoSuchTableError: "NoSuchTableException",
    err.NoSuchViewError: "NoSuchViewException",
    err.NoSuchPlanError: "NoSuchPlanIdException",
    err.MissingFileError: "NotFoundException",
    err.NotFoundError: "NotFoundException",
    err.AlreadyExistsError: "AlreadyExistsException",
    err.NamespaceNotEmptyError: "NamespaceNotEmptyException",
    err.CommitConflictError: "CommitFailedException",
    err.CommitStateUnknownError: "CommitStateUnknownException",
    err.WarehouseLockedError: "CommitFailedException",
    err.UnsupportedFormatVersionError: "BadRequestException",
    err.UnprocessableEntityError: "UnprocessableEntityException",
    err.ValidationError: "IllegalArgumentException",
    err.ReadOnlyError: "ForbiddenException",
    err.QueryLimitError: "BadRequestException",
}


def java_type(error: BaseException) -> str:
    """The Java class of an error, which clients read."""
    return next((_TYPES[kind] for kind in type(error).__mro__ if kind in _TYPES), "ServiceFailureException")


def error_answer(error: BaseException) -> Answer:
    """The answer that tells of an error. One that no rule foresaw is warned of under an id, and says nothing more."""
    if isinstance(error, err.IcecoreError):
        return named_error(error.http_status, java_type(error), str(error))
    reference = uuid.uuid4().hex[:12]
    told = "".join(traceback.format_exception(error))
    warnings.warn(f"the server failed on a request ({reference}):\n{told}", stacklevel=2)
    return named_error(500, "ServiceFailureException", f"{type(error).__name__}; the server's log tells of {reference}")


def named_error(status: int, kind: str, message: str) -> Answer:
    """The `ErrorModel` of a status and the Java class of an error."""
    return json_answer({"error": {"message": message, "type": kind, "code": status}}, status)
