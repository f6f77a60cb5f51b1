"""The check of files inside: that they open, that they hold as many rows as was noted, and that checksums fit.

Of data files only the footers are read, of Avro, which has none, the blocks' counts; of deletion vectors all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.file.puffin_file import read_footer
from icecore.engine.data.read.deletion_vector import BLOB_TYPE, decode_deletion_vector
from icecore.engine.data.read.file_sources import BATCH_ROWS, TO_THE_END, decoding, open_source
from icecore.engine.data.read.written_schema import check_written
from icecore.engine.errors import IcecoreError, MissingFileError, StorageError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.avro_blocks import read_blocks, read_header
from icecore.engine.formats.puffin import PuffinFooter
from icecore.engine.spec.content_file import DataFileContent, FileFormat, ManifestContent, ManifestEntryStatus
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.decode_entries import decode_unlisted
from icecore.projections.verify.findings import Cause
from icecore.projections.verify.verify_needed import (
    KINDS,
    MANIFEST,
    PARTITION_STATISTICS,
    STATISTICS,
    VECTOR,
    NeededFile,
)
from icecore.projections.verify.verify_tally import Fault

Item = TypeVar("Item")
Row = Mapping[str, Any]
_AT_ONCE = 1_024
_ENDINGS = {".parquet": FileFormat.PARQUET, ".orc": FileFormat.ORC, ".avro": FileFormat.AVRO}
_FORMATS = frozenset(map(str, _ENDINGS.values()))


def content_faults(storage: Storage, contents: pa.Table) -> Iterator[tuple[int, list[Fault]]]:
    """The faults inside of existing content files, in parts: the number of files looked at, and their faults.

    Deletion vectors that lie in one Puffin file are looked at together.
    """
    is_vector = pc.equal(contents["kind"], VECTOR)
    files = contents.filter(pc.invert(is_vector))
    for at in range(0, files.num_rows, _AT_ONCE):
        rows = files.slice(at, _AT_ONCE).to_pylist()
        yield len(rows), in_threads(lambda row: _of_file(storage, row), rows)
    vectors = contents.filter(is_vector).sort_by("file_path")
    part: list[list[Row]] = []
    for rows in _by_path(vectors):
        part.append(rows)
        if len(part) >= _AT_ONCE:
            yield len(part), in_threads(lambda of_file: _of_vectors(storage, of_file), part)
            part = []
    yield len(part), in_threads(lambda of_file: _of_vectors(storage, of_file), part)


def metadata_faults(storage: Storage, files: Sequence[NeededFile]) -> Iterator[tuple[int, list[Fault]]]:
    """The faults inside of existing manifests and statistics files, in parts as of `content_faults`."""
    for at in range(0, len(files), _AT_ONCE):
        part = files[at : at + _AT_ONCE]
        yield len(part), in_threads(lambda f: _of_metadata(storage, f), part)


def in_threads(check: Callable[[Item], list[Fault]], items: Sequence[Item]) -> list[Fault]:
    """The faults of all items, which are checked some at once."""
    with ThreadPoolExecutor(min(8, (os.cpu_count() or 1) + 2)) as pool:
        return [fault for faults in pool.map(check, items) for fault in faults]


def _by_path(vectors: pa.Table) -> Iterator[list[Row]]:
    rows = (row for batch in vectors.to_batches(max_chunksize=_AT_ONCE) for row in batch.to_pylist())
    for _, of_file in groupby(rows, key=lambda row: row["file_path"]):
        yield list(of_file)


def guarded(storage: Storage, kind: str, location: str, check: Callable[[], str | None]) -> list[Fault]:
    """The faults of a check that describes one, or raises where the file can't be read."""
    try:
        with decoding(location):
            text = check()
    except MissingFileError:
        # It was there when files were looked for: somebody deletes it right now.
        return [Fault(Cause.GONE, kind, location, f"{location} is gone")]
    except StorageError as e:
        remote = storage.local_path(location) is None
        return [Fault(Cause.UNREACHABLE if remote else Cause.UNREADABLE, kind, location, str(e))]
    except IcecoreError as e:
        return [Fault(Cause.UNREADABLE, kind, location, str(e))]
    return [] if text is None else [Fault(Cause.COUNT, kind, location, f"{location} {text}")]


# Data and delete files


def _of_file(storage: Storage, row: Row) -> list[Fault]:
    kind, location, name = KINDS[row["kind"]], row["file_path"], row["file_format"].upper()
    if row["is_encrypted"]:
        return [_encrypted(kind, location)]
    if name not in _FORMATS:
        return [Fault(Cause.UNKNOWN_FORMAT, kind, location, f"{location} is of the format {name}")]

    def check() -> str | None:
        found, noted = _rows_in(storage, location, FileFormat(name)), row["record_count"]
        return None if found == noted else f"has {found:,} rows, expected {noted:,}"

    return guarded(storage, kind, location, check)


def _rows_in(storage: Storage, location: str, file_format: FileFormat) -> int:
    """The number of rows in a file. Raises MissingFileError, CorruptFileError, StorageError."""
    if file_format is FileFormat.AVRO:
        data = storage.read_bytes(location)
        return sum(block.count for block in read_blocks(data, read_header(data, location), location))
    source = open_source(storage, location, file_format)
    check_written(source.fields, source.written_schema, location)
    return sum(batch.length for batch in source.batches(frozenset(), 0, TO_THE_END, BATCH_ROWS))


def _encrypted(kind: str, location: str) -> Fault:
    return Fault(Cause.ENCRYPTED, kind, location, f"{location} is encrypted, and was not looked into")


# Deletion vectors (Spec: D5, PF1)


def _of_vectors(storage: Storage, rows: Sequence[Row]) -> list[Fault]:
    """The first fault of a Puffin file, or of the deletion vectors in it."""
    kind, location = KINDS[VECTOR], rows[0]["file_path"]
    if rows[0]["is_encrypted"]:
        return [_encrypted(kind, location)]

    def check() -> str | None:
        # Some early writers left out Puffin's frame: where a blob starts at 0 or nowhere, there can be none.
        framed = any(r["content_offset"] for r in rows)
        footer = read_footer(storage, location) if framed else None
        with storage.open_input(location) as f:
            return next((t for r in rows if (t := _of_vector(f, footer, r)) is not None), None)

    return guarded(storage, kind, location, check)


def _of_vector(f: pa.NativeFile, footer: PuffinFooter | None, row: Row) -> str | None:
    offset, length = row["content_offset"], row["content_size_in_bytes"]
    about = f" at {offset}" if offset else ""
    if footer and not any((b.type, b.offset, b.length) == (BLOB_TYPE, offset, length) for b in footer.blobs):
        return f"has no deletion vector of {length} bytes{about} by its footer"
    data = bytes(f.read_at(f.size() if length is None else length, offset or 0))
    found = len(decode_deletion_vector(data, f"{row['file_path']}{about}"))
    return None if found == row["record_count"] else f"has {found:,} positions{about}, expected {row['record_count']:,}"


# Manifests and statistics


def _of_metadata(storage: Storage, f: NeededFile) -> list[Fault]:
    if f.is_encrypted:
        return [_encrypted(f.kind, f.location)]
    if f.kind == MANIFEST and f.listed is not None:
        listed = f.listed
        return guarded(storage, f.kind, f.location, lambda: _manifest_text(storage, listed))
    if f.kind == STATISTICS:
        return guarded(storage, f.kind, f.location, lambda: _statistics_text(storage, f))
    if f.kind == PARTITION_STATISTICS:
        file_format = _ENDINGS.get(os.path.splitext(f.location)[1].lower())
        if file_format is None:
            return [Fault(Cause.UNKNOWN_FORMAT, f.kind, f.location, f"{f.location} is of a format not known here")]
        return guarded(storage, f.kind, f.location, lambda: _opens(storage, f.location, file_format))
    return []


def _opens(storage: Storage, location: str, file_format: FileFormat) -> None:
    _rows_in(storage, location, file_format)


def _statistics_text(storage: Storage, f: NeededFile) -> str | None:
    footer, noted = read_footer(storage, f.location), f.footer_length
    if not noted or noted <= 0 or footer.footer_size_in_bytes == noted:
        return None
    return f"has a footer of {footer.footer_size_in_bytes:,} bytes, expected {noted:,}"


def _manifest_text(storage: Storage, listed: ListedManifest) -> str | None:
    """The difference between a manifest's entries and its row in the list (Spec: L1)."""
    m = listed.manifest
    entries = decode_unlisted(storage.read_bytes(m.manifest_path), m.manifest_path)
    is_data = pc.equal(entries["content"], int(DataFileContent.DATA))
    if entries.num_rows and pc.any(is_data if m.content is ManifestContent.DELETES else pc.invert(is_data)).as_py():
        return f"is listed as one of {m.content.name.lower()}, and has other entries"
    noted = {
        ManifestEntryStatus.ADDED: ("added", m.added_files_count, m.added_rows_count),
        ManifestEntryStatus.EXISTING: ("existing", m.existing_files_count, m.existing_rows_count),
        ManifestEntryStatus.DELETED: ("deleted", m.deleted_files_count, m.deleted_rows_count),
    }
    for status, (name, files, rows) in noted.items():
        of_status = entries.filter(pc.equal(entries["status"], int(status)))
        found = of_status.num_rows, pc.sum(of_status["record_count"]).as_py() or 0
        for count, expected, what in ((found[0], files, "entries"), (found[1], rows, "rows")):
            # Writers of v1 left counts out, and some have -1 for what they don't know.
            if expected is not None and expected >= 0 and count != expected:
                return f"has {count:,} {name} {what}, its list says {expected:,}"
    return None
