"""The exceptions of icecore, all of one base; each class says whether a retry can help, and what a server answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import ClassVar

_SUGGESTED = 3
_QUOTES = ('"', "`")


class IcecoreError(Exception):
    """Base of every error that icecore raises on purpose.

    `retryable` is true where the same call may succeed later. `http_status` is what a server answers, and `rest_type`
    the Java class that it names, by which clients of the REST catalog tell errors of one status apart.
    """

    retryable: ClassVar[bool] = False
    http_status: ClassVar[int] = 500
    rest_type: ClassVar[str] = "ServiceFailureException"

    def told(self, may_read: Callable[[tuple[str, ...]], bool]) -> str:
        """The message for somebody who may read in some namespaces: nothing in it depends on what is in others."""
        del may_read
        return str(self)


class ValidationError(IcecoreError, ValueError):
    """Input that breaks a rule: of the Iceberg spec, of a schema, or of an API."""

    http_status = 400
    rest_type = "ValidationException"


class MissingNamespaceError(ValidationError):
    """A name of a table or view without its namespace."""

    def __init__(self, message: str = "", name: str = "") -> None:
        super().__init__(message)
        self.name = name


class InvalidViewError(ValidationError):
    """A view whose parts don't fit, or a change of one that its spec forbids."""

    rest_type = "IllegalArgumentException"


class UnwritableCommitError(ValidationError):
    """A commit of the log holds what no manifest can, so that other engines can't follow the table past it.

    No such commit is accepted; logs of earlier releases may have one. The message names it, and what leads out.
    `position` is that of the event, `reason` what is wrong with it.
    """

    http_status = 409
    rest_type = "CommitFailedException"

    def __init__(self, text: str, position: int = 0, reason: str = "") -> None:
        super().__init__(text)
        self.position = position
        self.reason = reason or text


class ReusedKeyError(ValidationError):
    """An idempotency key that was used for another call or request before."""

    rest_type = "BadRequestException"


class UnprocessableEntityError(ValidationError):
    """A request that is well formed and contradicts itself, as properties that are both removed and updated."""

    http_status = 422
    rest_type = "UnprocessableEntityException"


class ForbiddenLocationError(ValidationError):
    """A location that the rules of the warehouse don't allow: outside of its folders, or where another table is.

    `more` tells of a table or view in the namespace `told_of`.
    """

    http_status = 403
    rest_type = "ForbiddenException"

    def __init__(self, plain: str = "", more: str = "", told_of: tuple[str, ...] = ()) -> None:
        super().__init__(plain + more)
        self.plain, self.more, self.told_of = plain, more, told_of

    def told(self, may_read: Callable[[tuple[str, ...]], bool]) -> str:
        """The message for somebody who may read in some namespaces: who is in the way is told to who may read there."""
        return self.plain + (self.more if may_read(self.told_of) else "")


class NotAuthorizedError(IcecoreError):
    """A client that shows no token, or one that is not known."""

    http_status = 401
    rest_type = "NotAuthorizedException"


class AuthenticationTimeoutError(NotAuthorizedError):
    """A token that has expired."""

    http_status = 419
    rest_type = "AuthenticationTimeoutException"


class ForbiddenError(IcecoreError):
    """A client whose token does not grant what it asks for."""

    http_status = 403
    rest_type = "ForbiddenException"


class TooManyAuditsError(IcecoreError):
    """A request for findings while too many others wait for theirs."""

    retryable = True
    http_status = 429
    rest_type = "TooManyRequestsException"


class ExpressionError(ValidationError):
    """A filter that can't be parsed, or can't be bound to the schema."""

    rest_type = "BadRequestException"


class UnsupportedFormatVersionError(ValidationError):
    """A table, view or manifest of a format version that this release doesn't know (Spec: G1)."""

    rest_type = "BadRequestException"


class NotFoundError(IcecoreError, LookupError):
    """Something that a call names does not exist; the message may go on with what became of it, or with names alike.

    `more` tells of things in the namespaces `told_of`; `like` are names that may be meant, the best first.
    """

    http_status = 404
    rest_type = "NotFoundException"

    def __init__(
        self,
        plain: str = "",
        more: str = "",
        told_of: tuple[tuple[str, ...], ...] = (),
        like: Sequence[tuple[str, ...]] = (),
    ) -> None:
        super().__init__(plain + more + did_you_mean(like))
        self.plain, self.more, self.told_of, self.like = plain, more, told_of, like

    def told(self, may_read: Callable[[tuple[str, ...]], bool]) -> str:
        """The message for somebody who may read in some namespaces: nothing in it depends on what is in others."""
        more = self.more if all(map(may_read, self.told_of)) else ""
        return self.plain + more + did_you_mean(name for name in self.like if may_read(self._namespace_of(name)))

    def _namespace_of(self, name: tuple[str, ...]) -> tuple[str, ...]:
        return name[:-1]


def name_text(name: tuple[str, ...]) -> str:
    """A name as dotted text that can be given again: in quotes where a level would be read as another without."""
    if not name:
        return ""
    *levels, last = name
    quoted = [n if "." not in n and n[:1] not in _QUOTES else _quoted(n) for n in levels]
    is_plain = "." not in last and not (last[:1] in _QUOTES and last[-1:] == last[:1] and len(last) > 1)
    return ".".join([*quoted, last if is_plain else _quoted(last)])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def did_you_mean(names: Iterable[tuple[str, ...]]) -> str:
    """The end of a message with the first names that may be meant; empty without any."""
    shown = [repr(name_text(name)) for name in islice(names, _SUGGESTED)]
    return f"; did you mean {' or '.join(shown)}?" if shown else ""


class NoSuchNamespaceError(NotFoundError):
    """The namespace does not exist."""

    rest_type = "NoSuchNamespaceException"

    def _namespace_of(self, name: tuple[str, ...]) -> tuple[str, ...]:
        return name


class NoSuchTableError(NotFoundError):
    """The table does not exist."""

    rest_type = "NoSuchTableException"


class NoSuchViewError(NotFoundError):
    """The view does not exist."""

    rest_type = "NoSuchViewException"


class NoSuchSnapshotError(NotFoundError):
    """No snapshot has that id, ref or time.

    In requests snapshots are arguments: clients read 404 as that the table, or the plan, is not there.
    """

    http_status = 400
    rest_type = "ValidationException"


class NoSuchPlanError(NotFoundError):
    """A named plan that is not kept, or can't be read any more."""

    rest_type = "NoSuchPlanIdException"


class AlreadyExistsError(IcecoreError):
    """A name that is taken."""

    http_status = 409
    rest_type = "AlreadyExistsException"


class NamespaceAlreadyExistsError(AlreadyExistsError):
    """The namespace exists already."""


class TableAlreadyExistsError(AlreadyExistsError):
    """A table or view of that name exists already."""


class NamespaceNotEmptyError(IcecoreError):
    """The namespace still holds tables, views or namespaces."""

    http_status = 409
    rest_type = "NamespaceNotEmptyException"


class CommitConflictError(IcecoreError):
    """A change by another commit to what this one relies on; says which commit, by whom, and what it touched."""

    http_status = 409
    rest_type = "CommitFailedException"


class ConflictingCommitsError(CommitConflictError):
    """Commits of others changed what this one was decided on; `conflicts` has one text for each change in the way."""

    def __init__(self, text: str, conflicts: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join((text, *conflicts)))
        self.conflicts = conflicts


class CommitFailedError(CommitConflictError):
    """A requirement of the commit that does not hold on the current state; a fresh attempt may succeed."""

    retryable = True


class ForeignCommitError(CommitConflictError):
    """Another engine changed the table through `iceberg_tables` or its folder, and the log has yet to take it in.

    Where its commit follows the log, the same call succeeds after the next load; else the message says what resolves.
    """

    retryable = True


class CommitStateUnknownError(IcecoreError):
    """The outcome of a commit could not be learnt; nothing was cleaned up."""

    http_status = 500
    rest_type = "CommitStateUnknownException"


class CorruptFileError(IcecoreError):
    """A metadata, manifest, delete or data file can't be decoded; the message names the file."""


class CorruptLogError(IcecoreError):
    """The transaction log breaks one of its own rules; the message names the position."""


class StorageError(IcecoreError):
    """Storage refused: missing file, no permission, no space, a scheme without a file system."""


class RebuildError(IcecoreError):
    """Files of some tables or views could not be made again; these keep what they had, all others were rebuilt.

    `failed` has the reason for each, by name.
    """

    def __init__(self, failed: Mapping[str, str], rebuilt: int) -> None:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        super().__init__(
            f"{len(failed)} of {len(failed) + rebuilt} tables and views keep the files that they had, as they can't be "
            f"made again ({reasons}); the others were rebuilt"
        )
        self.failed = dict(failed)


class MissingFileError(StorageError, FileNotFoundError):
    """A file that metadata names does not exist; `location` is its, where the error is of one file."""

    http_status = 404
    rest_type = "NotFoundException"
    location: str | None = None

    @classmethod
    def of(cls, location: str, text: str) -> MissingFileError:
        """The error of one file."""
        error = cls(text)
        error.location = location
        return error


class MissingArchiveError(MissingFileError):
    """A part of the log's history was archived, and the archive is not where it was put."""


class FileExistsInStorageError(StorageError, FileExistsError):
    """A file that must be new exists already."""

    http_status = 409
    rest_type = "CommitFailedException"


class WarehouseLockedError(IcecoreError):
    """Another process holds the write lock of the warehouse for longer than the timeout.

    503 would say that something may have been done; clients try 429 again as often.
    """

    retryable = True
    http_status = 429
    rest_type = "TooManyRequestsException"


class ReadOnlyError(IcecoreError):
    """The warehouse was opened read-only, or lies on storage that can't be written."""

    http_status = 403
    rest_type = "ForbiddenException"


class MovedWarehouseError(ReadOnlyError):
    """The warehouse was copied or moved from the folder that its log names, or moved away while it was open."""


class QueryLimitError(IcecoreError):
    """A query over the metadata took longer than its timeout, or more memory than its limit."""

    http_status = 400
    rest_type = "BadRequestException"


class MissingDependencyError(IcecoreError):
    """An optional package or program is needed; the message says what to install."""


REFUSED = (
    CommitConflictError,
    ValidationError,
    NotFoundError,
    AlreadyExistsError,
    NamespaceNotEmptyError,
    MovedWarehouseError,
)
"""What says for sure that a commit was not made."""


class UnreadableTableWarning(UserWarning):
    """An answer is without tables that can't be read."""


class MovedWarehouseWarning(UserWarning):
    """A warehouse was opened in another folder than the one that it belongs to."""


class LostLogWarning(UserWarning):
    """A warehouse was made in a folder that holds tables already, as where its log was lost."""
