"""The way back of a schema, where rows that were written since, under the later one, fit the earlier one too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from icecore.engine.commit.decide import StaleRemovals
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.branch_files import ROW_UPDATES, data_of
from icecore.engine.revert.net_changes import changed_files
from icecore.engine.revert.revert_metadata import Refuse
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.promotion import lacking_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation
from icecore.engine.spec.types import PrimitiveType
from icecore.engine.spec.updates.table_update import TableUpdate


def values_check(
    repository: Repository, before: TableState, after: TableState, now: TableState, refuse: Refuse
) -> Callable[[TableMetadata], list[TableUpdate]]:
    """A check that the refs are still those whose files are found here to fit the earlier schema.

    Files that do not fit are those that rewrote rows without a dropped column which comes back, those that may hold
    values of a wider type, or nulls of an optional column, and all without a required column that has no default.
    Raises the error that `refuse` makes for such a file; the check raises StaleRemovals.
    """
    is_bound = _is_bound(repository, before, after, now, refuse)

    def check(metadata: TableMetadata) -> list[TableUpdate]:
        if is_bound and metadata.refs != now.metadata.refs:
            raise StaleRemovals
        return []

    return check


def _is_bound(repository: Repository, before: TableState, after: TableState, now: TableState, refuse: Refuse) -> bool:
    """Whether the schema is set back to one that files may not fit; raises the error of `refuse` if one does not."""
    old, new = before.metadata.schema(), after.metadata.schema()
    if old.same_fields(new) or not now.metadata.schema().same_fields(new):
        return False
    dropped, loosened = next(_dropped(old, new), None), next(_loosened(old, new), None)
    if dropped is None and loosened is None:
        return False
    for branch in now.metadata.refs:
        written = _written_since(repository, branch, after, now)
        if loosened is not None and written.num_rows:
            raise refuse(f"rows were written to {branch!r} since, where {loosened}", ROW_UPDATES)
        makers = written["snapshot_id"].unique().to_pylist()
        if dropped is not None and not all(_is_append(now.metadata, i) for i in makers):
            raise refuse(f"rows of {branch!r} were written anew since, without the column {dropped!r}", ROW_UPDATES)
    return True


def _dropped(old: Schema, new: Schema) -> Iterator[str]:
    """The names of fields that are in the old schema only."""
    for field_id in sorted(old.field_ids - new.field_ids):
        yield old.name_of(field_id)


def _loosened(old: Schema, new: Schema) -> Iterator[str]:
    """The fields that may hold more values in the new schema, or lack those that the old one requires, in words."""
    for field_id in sorted(old.field_ids & new.field_ids):
        was, is_now = old.find_field(field_id), new.find_field(field_id)
        if isinstance(was.field_type, PrimitiveType) and was.field_type != is_now.field_type:
            yield f"{old.name_of(field_id)!r} is {is_now.field_type}"
        if was.required and not is_now.required:
            yield f"{old.name_of(field_id)!r} may be null"
    for name in lacking_columns(new, old):
        yield f"{name!r}, which is required, is missing"


def _written_since(repository: Repository, branch: str, after: TableState, now: TableState) -> pa.Table:
    """The entries of data files that a ref has now and that it, or main if the ref is newer, did not have then."""
    then = after.metadata.refs.get(branch) or after.metadata.refs.get(MAIN_BRANCH)
    base = None if then is None else after.metadata.find_snapshot(then.snapshot_id)
    head = now.metadata.find_snapshot(now.metadata.refs[branch].snapshot_id)
    return data_of(changed_files(repository, now, base, head)[1])


def _is_append(metadata: TableMetadata, snapshot_id: int) -> bool:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    return snapshot is not None and snapshot.operation == Operation.APPEND
