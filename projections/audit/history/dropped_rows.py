"""The tables that were dropped, and the health of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from icecore.engine.common.ids import signed
from icecore.engine.events import event as ev
from icecore.engine.events.event import is_view_stream
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.store import CHECKPOINTS
from icecore.engine.metadata.fold import TableState
from icecore.projections.history.commit_rows import told_number
from icecore.projections.history.logged_tables import OF_EVENT, LoggedTable, LoggedTables, of_event
from icecore.projections.verify.verify_models import database_problems, model_problems

DROPPED_TABLES = pa.schema(
    [
        *OF_EVENT,
        ("location", pa.string()),
        ("metadata_location", pa.string()),
        ("format_version", pa.int32()),
        ("current_snapshot_id", pa.int64()),
        ("snapshots", pa.int32()),
        ("data_files", pa.int64()),
        ("records", pa.int64()),
        ("file_bytes", pa.int64()),
        ("is_purged", pa.bool_()),
    ]
)
LOG_HEALTH = pa.schema([("aspect", pa.string()), ("ok", pa.bool_()), ("value", pa.int64()), ("detail", pa.string())])
_TOTALS = {"data_files": "total-data-files", "records": "total-records", "file_bytes": "total-files-size"}
PROBLEMS_NAMED = 3


def dropped(log: LoggedTables, table: LoggedTable) -> list[pa.Table]:
    """The row of `dropped_tables` for a table that has no name at the end; `position` is that of the drop."""
    if not table.is_dropped:
        return []
    drop = next(e for e in reversed(list(log.events(table))) if e.kind == ev.TABLE_DROPPED)
    state = log.repository.state_at(table.stream, log.position)
    assert state is not None, "it was dropped"
    return [pa.Table.from_pylist([{**of_event(table, drop), **_of_state(state)}], schema=DROPPED_TABLES)]


def _of_state(state: TableState) -> dict[str, Any]:
    metadata = state.metadata
    snapshot = metadata.current_snapshot()
    summary = (snapshot.summary or {}) if snapshot else dict.fromkeys(_TOTALS.values(), "0")
    totals = {name: summary.get(key, "") for name, key in _TOTALS.items()}
    return {
        "location": metadata.location,
        "metadata_location": state.metadata_location,
        "format_version": metadata.format_version,
        "current_snapshot_id": signed(metadata.current_snapshot_id),
        "snapshots": len(metadata.snapshots),
        **{name: told_number(text) for name, text in totals.items()},
        "is_purged": state.purged_at is not None,
    }


def log_health(log: LoggedTables) -> pa.Table:
    """The rows of `log_health`. The whole log is read, as of one moment: every event's hash is computed."""
    return pa.Table.from_pylist(list(_aspects(log)), schema=LOG_HEALTH)


def _aspects(log: LoggedTables) -> Iterator[dict[str, Any]]:
    store = log.store
    # Others may commit meanwhile.
    with store.reading():
        position, head, _ = store.head()
        broken = list(chain_problems(store))
        yield _aspect("hash chain", not broken, position, _first(broken) or f"unbroken up to {head}")
        yield _faults("database file", list(database_problems(store)))
        if not broken:
            yield _faults("read models", list(model_problems(store, log.repository.entries.beside)))
    tables = [t for s, t in log.named.items() if not is_view_stream(s)]
    yield _aspect("tables", True, sum(not t.is_dropped for t in tables))
    yield _aspect("dropped tables", True, sum(t.is_dropped for t in tables))
    yield _aspect("views", True, sum(is_view_stream(s) and not t.is_dropped for s, t in log.named.items()))
    archives = store.archives.all()
    last = archives[-1].last_position if archives else 0
    yield _aspect("archives", True, len(archives), f"events up to {last}" if archives else None)
    stale = [row["stream"] for row in store.rows(CHECKPOINTS, "without_checkpoint")]
    yield _aspect("tables and views without a checkpoint", True, len(stale), "replayed when they are loaded first")
    yield _aspect("bytes of the log", True, store.path.stat().st_size, str(store.path))


def _faults(aspect: str, problems: list[str]) -> dict[str, Any]:
    return _aspect(aspect, not problems, len(problems), _first(problems))


def _aspect(aspect: str, ok: bool, value: int, detail: str | None = None) -> dict[str, Any]:
    return {"aspect": aspect, "ok": ok, "value": value, "detail": detail}


def _first(problems: list[str]) -> str | None:
    """The first problems as one text; None where there are none."""
    return "; ".join(problems[:PROBLEMS_NAMED]) or None
