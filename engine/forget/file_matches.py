"""Matches of a value in one file, by what kind of file it is: rows, entries of manifests, or whatever has text."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator

import orjson
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.avro.avro_reader import AvroRows
from icecore.engine.data.file.file_field import file_fields
from icecore.engine.errors import CorruptFileError
from icecore.engine.forget.value_bounds import WantedBounds
from icecore.engine.forget.value_matches import Wanted
from icecore.engine.formats.avro_blocks import read_blocks, read_header
from icecore.engine.formats.manifest_avro import read_manifest_header
from icecore.engine.formats.manifest_list_avro import RECORD_NAME
from icecore.engine.formats.manifest_schema import ENTRY_NAME
from icecore.engine.formats.puffin import decode_blob, decode_footer
from icecore.projections.entries.decode_entries import decode_unlisted

ROWS_AT_ONCE = 65_536


@frozen
class FileMatches:
    """The search of files for a value.

    `only` has it as bounds of one column, and limits the search to that; `known` has it as bounds of the columns of the
    table that needs the file.
    """

    wanted: Wanted
    only: WantedBounds | None = None
    known: WantedBounds | None = None

    def of(self, data: bytes, where: str) -> dict[str, int]:
        """The number of matches in each column of a file, or in its bytes, where there are any.

        Raises CorruptFileError, OSError, ValueError, pa.ArrowException for a file that can't be searched.
        """
        found = Counter[str]()
        for name, n in self._in(data, where):
            found[name] += n
        return {name: n for name, n in found.items() if n}

    @property
    def _is_text(self) -> bool:
        """Whether texts are searched, too: not for a number in one column, of which digits in a text say nothing."""
        return self.only is None or not self.only.is_number

    def _in(self, data: bytes, where: str) -> Iterator[tuple[str, int]]:
        match data[:4]:
            case b"PAR1":
                yield from self._in_parquet(data)
            case b"PARE":
                raise CorruptFileError(f"{where} is encrypted, so nobody can say what is in it")
            case b"Obj\x01":
                yield from self._in_avro(data, where)
            case bytes(head) if head[:3] == b"ORC":
                from pyarrow import orc

                yield from self._in_table(orc.ORCFile(pa.BufferReader(data)).read())
            case _ if not self._is_text:
                return
            case b"PFA1":
                yield from self._in_puffin(data, where)
            case bytes(head) if head[:2] == b"\x1f\x8b":
                yield "text", self.wanted.in_bytes(gzip.decompress(data))
            case _:
                yield "text", self.wanted.in_bytes(data)

    def _in_parquet(self, data: bytes) -> Iterator[tuple[str, int]]:
        from pyarrow import parquet

        file = parquet.ParquetFile(pa.BufferReader(data))
        for group in range(file.num_row_groups):
            yield from self._in_table(file.read_row_group(group))
        for key, value in (file.metadata.metadata or {}).items() if self._is_text else ():
            yield f"footer {key.decode('utf-8', 'replace')}", self.wanted.in_bytes(value)

    def _in_avro(self, data: bytes, where: str) -> Iterator[tuple[str, int]]:
        header = read_header(data, where)
        if self._is_text:
            yield "header", self.wanted.in_bytes(b"".join(header.metadata.values()))
        name = header.schema.get("name") if isinstance(header.schema, dict) else None
        is_manifest, is_list = "partition-spec" in header.metadata or name == ENTRY_NAME, name == RECORD_NAME
        if is_manifest or is_list:
            blocks = (block.data for block in read_blocks(data, header, where)) if self._is_text else ()
            found = sum(map(self.wanted.in_bytes, blocks))
            yield "blocks", max(found, self._in_manifest(data, where)) if is_manifest else found
            return
        for batch in AvroRows(data, where).batches(ROWS_AT_ONCE):
            yield from self._in_table(pa.Table.from_batches([batch]))

    def _in_puffin(self, data: bytes, where: str) -> Iterator[tuple[str, int]]:
        footer = decode_footer(data, where)
        told = [*(blob.to_dict() for blob in footer.blobs), dict(footer.properties)]
        in_footer = self.wanted.in_bytes(orjson.dumps(told))
        in_blobs = sum(self.wanted.in_bytes(decode_blob(data, blob, where)) for blob in footer.blobs)
        yield from (("footer", in_footer), ("blobs", in_blobs))
        # Bytes between blobs may be those of one that the footer has no more.
        yield "text", max(0, self.wanted.in_bytes(data) - in_footer - in_blobs)

    def _in_manifest(self, data: bytes, where: str) -> int:
        """The bounds, partition values and paths in a manifest, by its own schema or, without one, its table's."""
        wanted = self.only or self.known
        header = read_manifest_header(data, where)
        if wanted is None or (self.only is None and header.schema is not None):
            schemas = () if header.schema is None else (header.schema,)
            wanted = WantedBounds.by_schemas(self.wanted, schemas, header.spec_fields or ())
        return wanted.count(decode_unlisted(data, where))

    def _in_table(self, table: pa.Table) -> Iterator[tuple[str, int]]:
        ids = None if self.only is None else self.only.column_ids
        for column, f in zip(table.columns, file_fields(table.schema), strict=True):
            if ids is None or f.field_id is None or f.field_id in ids or f.children:
                yield f.name, self.wanted.count(column)
