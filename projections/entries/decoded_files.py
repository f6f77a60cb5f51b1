"""The decoded entries of large manifests, kept in files: Arrow reads them at a tenth of what their Avro takes.

A file is one manifest's, written once and put in place whole, so any number of processes reads and writes them without
locks: an Arrow stream, compressed by LZ4, and its CRC-32. A manifest is immutable, so its path and length tell it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from attrs import frozen

from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA

WORTH_A_FILE = 2**16
"""The least bytes of a manifest whose entries are kept: smaller ones are soon decoded."""
UNUSED_AFTER_S = 7 * 24 * 3600.0
# Part of each file's name: to be raised when what a file holds changes.
_PREFIX = "decoded-1-"
_SUFFIX = ".arrow"
_CRC_BYTES = 4


Decode: TypeAlias = "Callable[[Sequence[ListedManifest]], Iterator[pa.Table]]"
"""`ManifestEntries.canonical_all` of one table."""


@frozen
class DecodedFiles:
    """The files in a folder."""

    folder: Path

    def canonical_all(
        self, manifests: Sequence[ListedManifest], decode: Decode, *, are_whole: bool
    ) -> Iterator[pa.Table]:
        """The entries of manifests as `decode` gives them, but large manifests are decoded only once.

        Entries that lack columns, as `are_whole` tells, are not kept.
        """
        if any(map(_is_worth_a_file, manifests)):
            yield from self._read_or_made(manifests, decode, are_whole)
        else:
            yield from decode(manifests)
        if are_whole:
            self._sweep()

    def _read_or_made(self, manifests: Sequence[ListedManifest], decode: Decode, are_whole: bool) -> Iterator[pa.Table]:
        """The entries of manifests; those of large manifests are in files, or get one."""
        if are_whole:
            # Not later: a folder that is gone by then was removed with the bounds that were forgotten.
            with contextlib.suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
        there = frozenset(_names(self.folder))
        for is_there, of_run in groupby(manifests, lambda m: _name(m) in there):
            if not is_there:
                yield from self._made(list(of_run), decode, are_whole)
                continue
            for listed in of_run:
                found = self._read(listed)
                if found is None:
                    (found,) = self._made([listed], decode, are_whole)
                yield found

    def _made(self, manifests: Sequence[ListedManifest], decode: Decode, are_whole: bool) -> Iterator[pa.Table]:
        """The entries of manifests that have no file; whole entries of large manifests get one."""
        for listed, found in zip(manifests, decode(manifests), strict=True):
            if are_whole and _is_worth_a_file(listed):
                self._write(listed, found)
            yield found

    def _read(self, listed: ListedManifest) -> pa.Table | None:
        """The entries in a manifest's file; None where it is gone, or is removed since it is damaged."""
        path = self.folder / _name(listed)
        try:
            data = memoryview(path.read_bytes())
        except OSError:
            return None
        with contextlib.suppress(OSError):
            # Marks the file as used, for other processes too; a process that may only read can't mark it.
            os.utime(path)
        stream, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
        with contextlib.suppress(pa.ArrowException):
            if zlib.crc32(stream) == int.from_bytes(crc, "big"):
                with pa.ipc.open_stream(stream, options=pa.ipc.IpcReadOptions(use_threads=False)) as reader:
                    found = reader.read_all()
                if found.schema.equals(ENTRY_SCHEMA):
                    return found
        self._remove(path)
        return None

    def _write(self, listed: ListedManifest, entries: pa.Table) -> None:
        """Keeps the entries of a manifest, where its folder can be written."""
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        with pa.ipc.new_stream(sink, ENTRY_SCHEMA, options=options) as writer:
            writer.write_table(entries)
        stream = sink.getvalue()
        unfinished = self.folder / f"{_PREFIX}{uuid.uuid4().hex}.unfinished"
        try:
            with unfinished.open("wb") as file:
                file.write(stream)
                file.write(zlib.crc32(stream).to_bytes(_CRC_BYTES, "big"))
            os.replace(unfinished, self.folder / _name(listed))
        except OSError:
            self._remove(unfinished)

    def _sweep(self) -> None:
        """Removes files that nobody used for long, also of writers that died and of other releases."""
        oldest = time.time() - UNUSED_AFTER_S
        for name in _names(self.folder, "decoded-"):
            path = self.folder / name
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    @staticmethod
    def _remove(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _is_worth_a_file(listed: ListedManifest) -> bool:
    """Whether a manifest is large and not in the log, which has entries in Arrow already."""
    return listed.is_foreign and listed.manifest.manifest_length >= WORTH_A_FILE


def _name(listed: ListedManifest) -> str:
    """The name of a manifest's file."""
    m = listed.manifest
    digest = hashlib.sha256(f"{m.manifest_path}|{m.manifest_length}|{m.partition_spec_id}".encode()).hexdigest()[:32]
    return f"{_PREFIX}{digest}{_SUFFIX}"


def _names(folder: Path, prefix: str = _PREFIX) -> list[str]:
    """The files of a folder whose names have the prefix."""
    try:
        return [name for name in os.listdir(folder) if name.startswith(prefix)]
    except OSError:
        return []
