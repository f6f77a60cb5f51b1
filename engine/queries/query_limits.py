"""The limits of a query in DuckDB: how long it may take, and how much memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
from attrs import define, field

from icecore.engine.errors import QueryLimitError, ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import spill_folder
from icecore.engine.queries.named_queries import query

_BETWEEN_INTERRUPTS = 0.02


@define(eq=False)
class Deadline:
    """The time at which a query must be answered: after so many `seconds`; None for no limit."""

    seconds: float | None = None
    _end: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._end = float("inf") if self.seconds is None else time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        """The seconds that are left, at least 0."""
        return max(self._end - time.monotonic(), 0.0)

    def check(self) -> None:
        """Raises QueryLimitError where the time is over."""
        if self.left == 0:
            raise self.error()

    def error(self) -> QueryLimitError:
        """The error of a query that took too long."""
        return QueryLimitError(f"the query was stopped: it took longer than its timeout of {self.seconds:g} s")


def limited_connection(memory_limit: str | None) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, which knows no time zone but UTC and spills into a folder of its own.

    Raises ValidationError for what is no size.
    """
    con = duckdb.connect(":memory:", config=spill_folder())
    try:
        duck.rows(con, query(duck.SETTINGS, "utc"))
        if memory_limit is not None:
            duck.rows(con, query(duck.SETTINGS, "memory_limit", size=duck.literal(str(memory_limit))))
    except duckdb.Error as e:
        con.close()
        raise ValidationError(f"memory_limit must be a size such as 512MB or 2GB, found {memory_limit!r}") from e
    return con


def parameters_by_name(parameters: Mapping[str, Any] | Sequence[Any] | None) -> Mapping[str, Any] | None:
    """The parameters by name: `1`, `2` and so on for those given by position, as DuckDB has it.

    NumPy's numbers, which DuckDB does not take, become Python's. Raises ValidationError for parameters that are neither
    a mapping nor a list.
    """
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {name: _plain(value) for name, value in parameters.items()}
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Sequence):
        raise ValidationError(f"parameters must be a mapping or a list, found {type(parameters).__name__}")
    return {str(i): _plain(value) for i, value in enumerate(parameters, 1)}


def _plain(value: Any) -> Any:
    match value:
        case list():
            return [_plain(v) for v in value]
        case tuple():
            return tuple(_plain(v) for v in value)
        case dict():
            return {name: _plain(v) for name, v in value.items()}
    is_number = getattr(getattr(value, "dtype", None), "kind", None) in {"b", "i", "u", "f"}
    return value.item() if is_number and value.ndim == 0 else value


def timeout_seconds(timeout: float | None) -> float | None:
    """A timeout as a number. Raises ValidationError where it is none above 0."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValidationError(f"timeout must be a number of seconds above 0, found {timeout!r}")
    return float(timeout)


@contextmanager
def within_limits(con: duckdb.DuckDBPyConnection, deadline: Deadline, memory_limit: str | None) -> Iterator[None]:
    """A context whose queries are stopped when the time is over. Raises QueryLimitError for that, and for memory."""
    deadline.check()
    try:
        with _interrupted(con, deadline):
            yield
    except duckdb.InterruptException as e:
        if deadline.left:
            raise
        raise deadline.error() from e
    except duckdb.OutOfMemoryException as e:
        limit = "the memory that there is" if memory_limit is None else f"its memory limit of {memory_limit}"
        raise QueryLimitError(f"the query was stopped: it needs more than {limit}") from e


@contextmanager
def _interrupted(con: duckdb.DuckDBPyConnection, deadline: Deadline) -> Iterator[None]:
    if deadline.seconds is None:
        yield
        return
    done = threading.Event()

    def interrupt() -> None:
        wait = deadline.left
        # Again and again: an interrupt that comes between two statements stops neither.
        while not done.wait(wait):
            con.interrupt()
            wait = _BETWEEN_INTERRUPTS

    watcher = threading.Thread(target=interrupt, daemon=True)
    try:
        watcher.start()
        yield
    finally:
        done.set()
        if watcher.is_alive():
            watcher.join()
