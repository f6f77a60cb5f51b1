"""The table properties that choose the format of a table's files and shape them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from icecore.engine.data.avro.avro_options import AvroOptions
from icecore.engine.data.orc.orc_options import OrcOptions
from icecore.engine.data.parquet.parquet_options import ParquetOptions
from icecore.engine.properties.table_properties import DATA_FORMAT, DELETE_FORMAT, of_delete_files
from icecore.engine.spec.content_file import FileFormat

FileOptions: TypeAlias = ParquetOptions | OrcOptions | AvroOptions

_OPTIONS: Mapping[FileFormat, type[FileOptions]] = {
    FileFormat.PARQUET: ParquetOptions,
    FileFormat.ORC: OrcOptions,
    FileFormat.AVRO: AvroOptions,
}


def data_file_options(properties: Mapping[str, str]) -> FileOptions:
    """The options of data files: the format by `write.format.default`, the rest by `write.<format>.*`.

    Raises ValidationError naming a property that can't be read.
    """
    return _OPTIONS[FileFormat(DATA_FORMAT.of(properties).upper())].from_properties(properties)


def delete_file_options(properties: Mapping[str, str]) -> FileOptions:
    """The options of delete files: the format by `write.delete.format.default`, else the data files' format.

    `write.delete.<format>.*` properties come before the `write.<format>.*` ones. Raises ValidationError.
    """
    name = DELETE_FORMAT.find(properties) or DATA_FORMAT.of(properties)
    return _OPTIONS[FileFormat(name.upper())].from_properties(of_delete_files(properties, name))
