"""Streams of Spark that commit each micro-batch once: the function that `writeStream.foreachBatch` calls."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen

from icecore.engine.catalog.catalog import open_catalog
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import counted, number_in
from icecore.engine.data.spark_schema import is_spark
from icecore.engine.errors import MissingArchiveError, ValidationError
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.metadata.write_audit_publish import EPOCH_ID, QUERY_ID
from icecore.engine.operations.cherry_pick import SOURCE_SNAPSHOT_ID
from icecore.engine.repository.ancestors import ancestors_since
from icecore.engine.spec.snapshot import MAIN_BRANCH, SnapshotRefType
from icecore.engine.table.table import Table
from icecore.engine.table.transaction import Transaction

# The local property in which Spark tells the thread of a stream the id of its query.
_SPARKS_QUERY_ID = "sql.streaming.queryId"

Change = Callable[[Transaction, Any], object]


@frozen
class Batch:
    """A micro-batch of a stream. `kind` is the API by which it comes, `sink` the name of one of a branch's sinks."""

    kind: str
    table_uuid: str | None
    query: str
    number: int
    branch: str
    sink: str | None = None

    @property
    def key(self) -> str:
        """The idempotency key of its commit; main's only sink keeps the form from before there were others."""
        if self.branch == MAIN_BRANCH and self.sink is None:
            return f"{self.kind} {self.table_uuid} {self.query} {self.number}"
        return json.dumps([self.kind, self.table_uuid, self.query, self.number, self.branch, self.sink])

    def __str__(self) -> str:
        return f"batch {self.number} of the query {self.query}"


def foreach_batch(
    table: Table,
    change: Change | None = None,
    *,
    query: str | None = None,
    sink: str | None = None,
    skip_committed: bool = False,
    branch: str = MAIN_BRANCH,
    snapshot_properties: Mapping[str, str] | None = None,
    message: str | None = None,
    author: str | None = None,
) -> BatchCommits:
    """The function for `writeStream.foreachBatch` that makes each micro-batch one commit, exactly once.

    The rows are appended; or `change(transaction, rows)` does with them in a transaction what it likes, then without
    `branch` and `snapshot_properties`. A batch that Spark runs again after a crash, at whatever step, is not committed
    again: the commit's idempotency key is the table, the branch, the query and the number of the batch. Where a query
    changes a branch of a table more than once a batch, each such function needs a name of its own, `sink`, else only
    the first one acts. `query` names the query where Spark does not tell its id, in Spark Connect; it must be another
    one when a query starts over with a new checkpoint, whose batches count from zero. An appended batch that comes
    again with another count of rows is refused, and any batch whose commit was rolled back, unless `skip_committed`
    says to pass over it. The function can be pickled: where it runs, it opens the table's warehouse anew. Raises
    ReadOnlyError where the table can't be changed.
    """
    table._repository.check_writable()
    return BatchCommits(
        str(table._repository.store.path.parent.absolute()),
        table.name(),
        change,
        query,
        sink,
        skip_committed,
        branch,
        dict(snapshot_properties or {}),
        message,
        author or table._actor,
    )


@frozen
class BatchCommits:
    """Micro-batches as commits to a table, which is known by its warehouse and name."""

    warehouse: str
    identifier: Identifier
    change: Change | None
    query: str | None
    sink: str | None
    skip_committed: bool
    branch: str
    snapshot_properties: Mapping[str, str]
    message: str | None
    author: str | None

    def __call__(self, rows: Any, batch_id: int) -> None:
        """Commits a batch unless that was done before.

        Raises ValidationError where nothing names the query, and what `check_batch` and `check_kept` raise.
        """
        query = self.query or _query_of(rows)
        if query is None:
            raise ValidationError("Spark does not tell which query this is: name it, foreach_batch(..., query=NAME)")
        with open_catalog(self.warehouse, create=False) as catalog:
            table = catalog.load_table(self.identifier)
            batch = Batch("foreachBatch", table.metadata.table_uuid, query, batch_id, self.branch, self.sink)
            with table.transaction(message=self.message, author=self.author, idempotency_key=batch.key) as transaction:
                if not self.skip_committed:
                    check_kept(transaction, batch)
                named = {QUERY_ID: query, EPOCH_ID: str(batch_id)}
                if self.change is not None:
                    transaction._pending.snapshot_properties.update(named)
                    self.change(transaction, rows)
                    return
                if is_spark(rows) and not self.skip_committed:
                    check_batch(transaction, rows.count, batch)
                properties = {**named, **self.snapshot_properties}
                transaction.append(rows, branch=self.branch, snapshot_properties=properties)


def check_batch(transaction: Transaction, rows: Callable[[], int], batch: Batch) -> None:
    """Checks that a batch of appended rows that was committed before comes again with as many rows.

    Spark runs a batch again over the same offsets. With another checkpoint of the same query, as from a backup or a
    copy that went on beside it, the number can stand for other rows: these would be lost, and later rows doubled. A
    batch without rows made no commit; the commit of a later batch tells of it, as far back as snapshots are kept.
    Raises ValidationError where the number of rows is another one.
    """
    made, then = transaction._pending.answered, 0
    if made is not None:
        then = sum(int((s.summary or {}).get("added-records", 0)) for s in snapshots_of(made)[0])
        known = f"was committed with {counted(then, 'row')}, at position {made.position},"
    elif (later := _later(transaction, batch)) is not None:
        known = f"had no rows when batch {later.number} was committed,"
    else:
        return
    if then != (now := rows()):
        raise ValidationError(
            f"{batch} {known} and comes again with {now}: its checkpoint is an older one or a copy, and goes on under "
            "another name of the query; or its rows follow from more than its offsets, and skip_committed (option "
            "skip-committed-batches) passes over it"
        )


def _later(transaction: Transaction, batch: Batch) -> Batch | None:
    """A batch with a higher number whose commit the branch stands on. Other sinks and branches don't count."""
    pending = transaction._pending
    metadata = pending.state.metadata
    head = metadata.refs[batch.branch].snapshot_id if batch.branch in metadata.refs else None
    for snapshot in metadata.ancestors(head):
        summary = snapshot.summary or {}
        number = number_in(summary.get(EPOCH_ID, ""))
        if summary.get(QUERY_ID) == batch.query and number is not None:
            other = evolve(batch, number=number)
            if other.number <= batch.number:
                return None
            if pending.repository.store.event_by_idempotency_key(other.key) is not None:
                return other
    return None


def check_kept(transaction: Transaction, batch: Batch) -> None:
    """Checks that the table still stands on the commit of a batch that comes again.

    A user who rolls a table back and runs the batches since then again, from an earlier checkpoint, wants their rows;
    but by their keys they are committed, and would be passed over. Snapshots may have been expired since or
    cherry-picked, and branches may be gone. Raises ValidationError where the commit was taken back.
    """
    pending = transaction._pending
    made = pending.answered
    if made is None or made.stream != pending.state.stream:
        return
    # Another process may have made the commit after the transaction looked at the table.
    state = pending.repository.state(made.stream)
    branches = {MAIN_BRANCH} | {name for name, r in state.metadata.refs.items() if r.type is SnapshotRefType.BRANCH}
    branch_of = snapshots_of(made)[1]
    for branch in branches.intersection(branch_of.values()):
        lacking = {str(i) for i, b in branch_of.items() if b == branch}
        head = state.metadata.refs[branch].snapshot_id if branch in state.metadata.refs else None
        since = ancestors_since(pending.repository, state, head, made.position - 1)
        with contextlib.suppress(MissingArchiveError):
            while lacking and (snapshot := next(since, None)) is not None:
                lacking -= {str(snapshot.snapshot_id), (snapshot.summary or {}).get(SOURCE_SNAPSHOT_ID)}
            if lacking:
                raise ValidationError(
                    f"{batch} was committed at position {made.position}, and {branch!r} "
                    "does not stand on that commit any more, as after a rollback or a replacement: where its rows are "
                    "wanted again, another name of the query commits them; else skip_committed (option "
                    "skip-committed-batches) passes over it"
                )


def _query_of(rows: Any) -> str | None:
    """The id of the query that the calling thread runs, the same after each restart; None where Spark doesn't say."""
    try:
        found = rows.sparkSession.sparkContext.getLocalProperty(_SPARKS_QUERY_ID)
    except Exception:  # Connect raises an error class of its own, and other rows have no session
        return None
    return None if found is None else str(found)
