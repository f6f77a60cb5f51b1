"""A folder of Parquet files that is to become a table, as Spark and Hive lay them out; nothing of it is rewritten."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote

import pyarrow as pa
from attrs import frozen

from icecore.engine.common.location import to_uri
from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.data.file.hive_path import NULL
from icecore.engine.data.write.describe_files import parquet_footer
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import list_files

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")


@frozen
class ParquetFolder:
    """The files of a folder, the schemas that they have, and the columns that only their paths have, by name."""

    location: str
    files: tuple[str, ...]
    schemas: tuple[pa.Schema, ...]
    partitions: tuple[tuple[str, pa.DataType], ...]

    @classmethod
    def of(cls, folder: str, storage: Storage) -> ParquetFolder:
        """The Parquet folder of that location. Files whose name begins with `_` or `.` are passed over, as in Spark.

        Raises ValidationError where it has no file or a symbolic link, is an Iceberg table, or its files are not laid
        out alike, CorruptFileError for what is not Parquet.
        """
        location = to_uri(folder).rstrip("/")
        check_links(storage.local_path(location))
        found = sorted(f.location for f in list_files(storage, location, is_hidden))
        if (metadata := next((f for f in found if f.endswith(".metadata.json")), None)) is not None:
            table = metadata.rpartition("/")[0].removesuffix("/metadata")
            what = f"{folder} is an Iceberg table: register it"
            raise ValidationError(
                what if table == location else f"{folder} holds the Iceberg table {table}: register that"
            )
        if not found:
            raise ValidationError(f"{folder} has no Parquet file")
        keys = [tuple(_folders(f.removeprefix(location))) for f in found]
        names = {tuple(name for name, _ in of_file) for of_file in keys}
        if len(names) > 1:
            one, other = sorted(names)[:2]
            raise ValidationError(f"{folder} is partitioned by {list(one)} here and by {list(other)} there")
        columns = tuple((column[0][0], _type(text for _, text in column)) for column in zip(*keys, strict=True))
        schemas = dict.fromkeys(parquet_footer(f, storage).schema.to_arrow_schema().remove_metadata() for f in found)
        return cls(location, tuple(found), tuple(map(_all_optional, schemas)), columns)

    def schema(self) -> pa.Schema:
        """The columns of the first file, then those of the paths. Later files may have more."""
        first = self.schemas[0]
        only_in_paths = [pa.field(name, kind) for name, kind in self.partitions if name not in first.names]
        return pa.schema([*first, *only_in_paths])

    def others(self) -> list[Schema]:
        """The schemas that other files have."""
        return [arrow_to_schema(s, format_version=3) for s in self.schemas[1:]]


def check_links(folder: str | None) -> None:
    """Raises ValidationError where a symbolic link may hold rows: listings follow none."""
    for parent, folders, names in os.walk(folder) if folder else ():
        folders[:] = [f for f in folders if not is_hidden(f)]
        for name in (*folders, *names):
            path = os.path.join(parent, name)
            if not is_hidden(name) and os.path.islink(path):
                raise ValidationError(f"{path} is a symbolic link: put what it leads to in its place")


def is_hidden(name: str) -> bool:
    """Whether a file or folder of that name is passed over, as Spark does; a partition never is."""
    return name.startswith(("_", ".")) and "=" not in name


def _folders(path: str) -> Iterable[tuple[str, str | None]]:
    for folder in path.split("/")[:-1]:
        name, equals, text = folder.partition("=")
        if equals:
            yield unquote(name), None if text == NULL else unquote(text)


def _type(texts: Iterable[str | None]) -> pa.DataType:
    """The type of a column that paths have: whole numbers, dates, or else text, so that each value reads as written."""
    known = [t for t in texts if t is not None]
    kinds: tuple[tuple[Callable[[str], object], pa.DataType], ...] = (
        (_WHOLE.fullmatch, pa.int64()),
        (_is_date, pa.date32()),
    )
    return next((kind for is_one, kind in kinds if known and all(map(is_one, known))), pa.string())


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text) and dt.date.fromisoformat(text))
    except ValueError:
        return False


def _all_optional(schema: pa.Schema) -> pa.Schema:
    """Columns that another file may lack can be null."""
    return pa.schema([f.with_nullable(True) for f in schema])
