"""The rows of the audit tables about files: manifests, live files, and the tables whose files can't be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from icecore.engine.table.table import Table
from icecore.projections.audit.audited_tables import AuditedRows, signed
from icecore.projections.inspect.live_files import LIVE_FILES

MANIFESTS = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("manifest_path", pa.string()),
        ("content", pa.string()),
        ("partition_spec_id", pa.int32()),
        ("sequence_number", pa.int64()),
        ("added_snapshot_id", pa.int64()),
        ("added_files_count", pa.int64()),
        ("existing_files_count", pa.int64()),
        ("deleted_files_count", pa.int64()),
        ("added_rows_count", pa.int64()),
        ("existing_rows_count", pa.int64()),
        ("deleted_rows_count", pa.int64()),
    ]
)


def manifests(of: AuditedRows) -> pa.Table:
    """The rows of `manifests`."""

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        for listed in table.manifests():
            m = listed.manifest
            yield {
                **{n: getattr(m, n) for n in MANIFESTS.names if n not in ("namespace", "name", "content")},
                "content": m.content.name.lower(),
                "added_snapshot_id": signed(m.added_snapshot_id),
            }

    return of.of(MANIFESTS, rows)


_NAMED = (pa.field("namespace", pa.string()), pa.field("name", pa.string()))
FILES = pa.schema([*_NAMED, *LIVE_FILES])


def files(of: AuditedRows) -> pa.Table:
    """The rows of `files`."""
    found = [FILES.empty_table()]
    for audited, files in of.each(lambda table: table.files()):
        names = (pa.repeat(pa.scalar(text, pa.string()), files.num_rows) for text in (audited.namespace, audited.name))
        found.append(pa.table([*names, *files.columns], schema=FILES))
    return pa.concat_tables(found)


PROBLEMS = pa.schema([*_NAMED, ("table_uuid", pa.string()), ("kind", pa.string()), ("message", pa.string())])


def problems(of: AuditedRows) -> pa.Table:
    """The rows of `problems`: the errors of reading the manifests and files of each table."""
    for _ in of.each(lambda table: (table.manifests(), table.files())):
        pass
    failed = [(t, of.tables.problems.get(t.stream)) for t in of.tables.needed(of.needed)]
    rows = [
        {**t.named, "table_uuid": t.table_uuid, "kind": type(p[1]).__name__, "message": str(p[1])}
        for t, p in failed
        if p is not None
    ]
    return pa.Table.from_pylist(rows, schema=PROBLEMS)
