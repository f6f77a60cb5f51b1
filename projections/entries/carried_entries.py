"""The entries that a manifest carries over from the manifests that it was made of."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.formats.entry_arrow import with_status
from icecore.engine.spec.content_file import ManifestEntryStatus


def live_entries(entries: pa.Table) -> pa.Table:
    """The entries that are not deleted."""
    return _filtered(entries, pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)))


def put_together(sources: Iterable[pa.Table], rows: pa.Table) -> pa.Table:
    """A manifest's entries: the live ones of its sources, except of files that its own rows name, and these rows."""
    gone = file_keys(rows) if rows.num_rows else None
    out = []
    for survivors in sources:
        if gone is not None:
            survivors = _filtered(survivors, pc.invert(pc.is_in(file_keys(survivors), gone)))
        out.append(with_status(survivors, ManifestEntryStatus.EXISTING))
    return pa.concat_tables([*out, rows]).combine_chunks()


def _filtered(entries: pa.Table, wanted: pa.ChunkedArray) -> pa.Table:
    """The entries that are wanted; not filtered where all are, as mostly: so many columns take long."""
    return entries if pc.all(wanted, skip_nulls=False).as_py() else entries.filter(wanted)


def file_keys(entries: pa.Table) -> pa.ChunkedArray:
    """Keys that tell files apart: the path, and for deletion vectors the offset in their Puffin file too."""
    offsets = pc.fill_null(pc.cast(entries["content_offset"], pa.string()), "")
    return pc.binary_join_element_wise(entries["file_path"], offsets, "\x00")


def file_key(path: str, content_offset: int | None) -> str:
    """The key that `file_keys` gives a file."""
    return f"{path}\x00{'' if content_offset is None else content_offset}"
