"""The checks that a revert which removes or restores delete files restores and deletes the right rows (Spec: SP3).

A removed delete file gives rows back only where the data files that it applied to are still there. A restored one
deletes rows again only there, and must not apply to other data files. A restored data file must meet the very delete
files that applied to it. Restored rows may be those of a removed data file as they were before an update, so no row of
that file may have been deleted since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from attrs import frozen

from icecore.engine.formats.entry_arrow import partition_keys, path_keys
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.branch_files import ROW_UPDATES, BranchChange, LiveFiles, data_of, deletes_of
from icecore.engine.revert.revert_metadata import Refuse
from icecore.engine.spec.content_file import DataFileContent
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.projections.entries.carried_entries import file_keys

_WHERE = ("sequence_number", "content", "file_path", "spec_id", "partition", "referenced_data_file")


@frozen
class _Files:
    """Data files, as `_Rows` has them."""

    rows: list[dict[str, Any]]

    def met_by(self, deletes: Iterable[dict[str, Any]]) -> dict[str, str]:
        """The paths of those to which one of the delete files may apply (SP3), by their keys."""
        known = {row["key"]: row["file_path"] for row in self.rows}
        found: dict[str, str] = {}
        for delete in deletes:
            if (named := delete["named"]) is None:
                found |= {row["key"]: row["file_path"] for row in self.rows if _may_meet(delete, row)}
            elif named in known:
                found[named] = known[named]
        return found


@frozen
class _Rows:
    """A reader of entries of some states of a table, whose paths and partitions it makes comparable, as plans do."""

    specs: Mapping[int, PartitionSpec]
    fields: Schema

    @classmethod
    def of_states(cls, *states: TableState) -> _Rows:
        """The reader for all of these, the newest one last."""
        specs = {i: spec for state in states for i, spec in state.metadata.specs.items()}
        return cls(specs, states[-1].metadata.all_fields)

    def of(self, entries: pa.Table) -> list[dict[str, Any]]:
        """The columns of _WHERE, with keys of path (`key`), referenced data file (`named`) and partition (`place`)."""
        found = entries.select(_WHERE).append_column("key", path_keys(entries["file_path"]))
        found = found.append_column("named", path_keys(entries["referenced_data_file"]))
        places = partition_keys(entries, self.specs, self.fields)
        return [{**row, "place": place} for row, place in zip(found.to_pylist(), places, strict=True)]

    def by_key(self, entries: pa.Table) -> dict[str, dict[str, Any]]:
        """The same rows by the keys of their files."""
        return dict(zip(file_keys(entries).to_pylist(), self.of(entries), strict=True))


def _may_meet(delete: dict[str, Any], data: dict[str, Any]) -> bool:
    """Whether a delete file that names no data file may apply to one, by its age and partition."""
    is_equality = _is_equality(delete)
    limit, age = delete["sequence_number"], data["sequence_number"]
    if None not in (limit, age) and (age >= limit if is_equality else age > limit):
        return False
    if is_equality and not delete["partition"]:
        return True
    return bool(delete["place"] == data["place"])


def _is_equality(delete: dict[str, Any]) -> bool:
    return bool(delete["content"] == DataFileContent.EQUALITY_DELETES)


def check_deletes(
    repository: Repository,
    change: BranchChange,
    before: TableState,
    after: TableState,
    now: TableState,
    refuse: Refuse,
) -> None:
    """Raises the error that `refuse` makes where delete files would apply otherwise than they did.

    Data files are read only where there are any delete files.
    """
    going, coming = deletes_of(change.added), deletes_of(change.removed)
    returning = data_of(change.removed)
    if not (going.num_rows or coming.num_rows or returning.num_rows):
        return
    was, made, live = (LiveFiles.of_branch(repository, state, change.branch) for state in (before, after, now))
    known, rows = set(file_keys(change.added).to_pylist()), _Rows.of_states(before, after, now)
    left = {key: row for key, row in rows.by_key(live.deletes).items() if key not in known}
    back, then = rows.by_key(coming), rows.by_key(was.deletes)
    if going.num_rows:
        met = _Files(rows.of(made.data)).met_by(r for key, r in rows.by_key(made.deletes).items() if key in known)
        _check_still_there(met, _paths(live.data), change, refuse)
        keys = [row for key, row in left.items() if key not in then and _is_equality(row)]
        if keys and _Files([row for row in rows.of(live.data) if row["key"] in met]).met_by(keys):
            raise refuse(f"{change.branch} has later equality deletes that may be about its rows", ROW_UPDATES)
    if back:
        _check_what_they_meet(rows, back, left, was, live, change, refuse)
    differing = [row for key, row in (then | left | back).items() if (key in then) != (key in left or key in back)]
    if differing and _Files(rows.of(returning)).met_by(differing):
        raise refuse(f"{change.branch} has other delete files than then, which may apply to its files", ROW_UPDATES)
    if returning.num_rows or going.num_rows:
        leaving, earlier = _paths(data_of(change.added)), rows.by_key(made.deletes)
        later = [row for key, row in left.items() if key not in earlier]
        if later and _Files([row for row in rows.of(live.data) if row["key"] in leaving]).met_by(later):
            raise refuse(f"{change.branch} has later deletes of rows in files that it added", ROW_UPDATES)


def _check_what_they_meet(
    rows: _Rows,
    back: Mapping[str, dict[str, Any]],
    left: Mapping[str, dict[str, Any]],
    was: LiveFiles,
    live: LiveFiles,
    change: BranchChange,
    refuse: Refuse,
) -> None:
    """Checks that delete files which come back meet the data files that they met, no others, and no other deletes."""
    gone, returning = _paths(data_of(change.added)), _paths(data_of(change.removed))
    stays = [row for row in rows.of(live.data) if row["key"] not in gone]
    there = {row["key"] for row in stays} | returning
    _check_still_there(_Files(rows.of(was.data)).met_by(back.values()), there, change, refuse)
    before = _paths(was.data)
    if _Files([row for row in stays if row["key"] not in before]).met_by(back.values()):
        raise refuse(f"delete files that it removed would meet newer files of {change.branch}", ROW_UPDATES)
    named = {row["named"] for row in back.values()} - {None}
    if any(row["named"] in named for row in left.values()):
        raise refuse(f"{change.branch} has other delete files than then for its files", ROW_UPDATES)


def _paths(entries: pa.Table) -> set[str]:
    return set(path_keys(entries["file_path"]).to_pylist())


def _check_still_there(met: Mapping[str, str], there: set[str], change: BranchChange, refuse: Refuse) -> None:
    if lost := [path for key, path in met.items() if key not in there]:
        some = f"the file {min(lost)}" if len(lost) == 1 else f"{len(lost)} files ({min(lost)}, ...)"
        raise refuse(f"{some}, of which it deleted rows, left {change.branch} since", ROW_UPDATES)
