"""The rows of the audit tables about what lies on disk: faults of files, files that nothing needs, the folder itself.

They are told as it is now, also where the past is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from icecore.engine.deletion.orphan_files import unreferenced_files
from icecore.engine.errors import IcecoreError, MissingFileError, StorageError
from icecore.engine.log.warehouse_folder import UUID, WarehouseFolder
from icecore.engine.storage.listing import FoundFile
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.history.logged_tables import NAMED
from icecore.projections.verify.findings import UNCHECKED
from icecore.projections.verify.verify_tables import check_files

FILE_FAULTS = pa.schema(
    [
        *NAMED,
        ("cause", pa.string()),
        ("kind", pa.string()),
        ("files", pa.int64()),
        ("is_wrong", pa.bool_()),
        ("message", pa.string()),
        ("examples", pa.list_(pa.string())),
    ]
)


def file_faults(of: AuditedRows) -> pa.Table:
    """The rows of `file_faults`: what `verify` finds, without opening files."""
    looks = of.tables.looks

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        if looks.of(of.log.repository, table.state).are_there:
            return
        checked = check_files(of.log.repository, table.state, looks.stores, deep=False, progress=None)
        for f in checked.findings:
            said = str(f)
            yield {
                "cause": str(f.cause),
                "kind": f.kind,
                "files": f.count,
                "is_wrong": f.cause not in UNCHECKED,
                "message": said.partition(": ")[2] if said.startswith(f"{f.table}: ") else said,
                "examples": list(f.examples),
            }

    return of.of(FILE_FAULTS, rows)


ORPHAN_FILES = pa.schema(
    [
        *NAMED,
        ("file_path", pa.string()),
        ("file_size_in_bytes", pa.int64()),
        ("modified_at", pa.timestamp("ms", "UTC")),
    ]
)


def orphan_files(of: AuditedRows) -> pa.Table:
    """The rows of `orphan_files`, of whatever age.

    A table that can't be read may need any of these files: from the first such table on no more are told.
    """
    is_unsure = any(_is_unreachable(e) for _, e in of.tables.problems.values())

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        nonlocal is_unsure
        found: list[FoundFile] = []
        if is_unsure or of.tables.looks.of(of.log.repository, table.state).are_needed:
            return
        try:
            found = unreferenced_files(of.log.repository, table.state.stream)
        except IcecoreError:
            # Raises if this table itself can't be read, which is its own problem.
            table.files()
            is_unsure = True
        for f in found:
            yield {"file_path": f.location, "file_size_in_bytes": f.size, "modified_at": f.modified_ms}

    return of.of(ORPHAN_FILES, rows)


def _is_unreachable(error: IcecoreError) -> bool:
    """Whether a store did not answer, so that to ask it again takes seconds."""
    return isinstance(error, StorageError) and not isinstance(error, MissingFileError)


WAREHOUSE = pa.schema(
    [
        ("name", pa.string()),
        ("warehouse_uuid", pa.string()),
        ("location", pa.string()),
        ("opened_at", pa.string()),
        ("is_home", pa.bool_()),
    ]
)


def warehouse(of: AuditedRows) -> pa.Table:
    """The row of `warehouse`."""
    store = of.log.store
    folder = WarehouseFolder.of(store)
    row = {
        "name": of.log.repository.models.catalog_name,
        "warehouse_uuid": store.warehouse_value(UUID),
        "location": folder.root,
        "opened_at": folder.opened,
        "is_home": folder.is_home,
    }
    return pa.Table.from_pylist([row], schema=WAREHOUSE)
