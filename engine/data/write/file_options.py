"""In which format a table's files are written, and how: table properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from icecore.engine.data.avro.avro_options import AvroOptions
from icecore.engine.data.file.option_values import MIB, choice
from icecore.engine.data.orc.orc_options import OrcOptions
from icecore.engine.data.parquet.parquet_options import ParquetOptions
from icecore.engine.spec.content_file import FileFormat

FileOptions: TypeAlias = ParquetOptions | OrcOptions | AvroOptions

FORMAT = "write.format.default"
DELETE_FORMAT = "write.delete.format.default"
_TARGET_SIZE = "write.target-file-size-bytes"
_DELETE_TARGET_SIZE = "write.delete.target-file-size-bytes"
_DEFAULT_DELETE_TARGET_SIZE = 64 * MIB
_FORMATS = {f.value.lower(): f.value for f in (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO)}
_OPTIONS: Mapping[FileFormat, type[FileOptions]] = {
    FileFormat.PARQUET: ParquetOptions,
    FileFormat.ORC: OrcOptions,
    FileFormat.AVRO: AvroOptions,
}


def data_file_options(properties: Mapping[str, str]) -> FileOptions:
    """How data files are written: in `write.format.default`, by the properties `write.<format>.*`.

    Raises ValidationError naming a property that can't be read.
    """
    file_format = FileFormat(choice(properties, FORMAT, _FORMATS, "parquet"))
    return _OPTIONS[file_format].from_properties(properties)


def delete_file_options(properties: Mapping[str, str]) -> FileOptions:
    """How delete files are written: in `write.delete.format.default`, else the data files' format.

    `write.delete.<format>.*` properties come before the `write.<format>.*` ones. Raises ValidationError.
    """
    data_format = choice(properties, FORMAT, _FORMATS, "parquet")
    file_format = FileFormat(choice(properties, DELETE_FORMAT, _FORMATS, data_format.lower()))
    prefix = f"write.delete.{file_format.value.lower()}."
    own = {key.replace("write.delete.", "write."): value for key, value in properties.items() if key.startswith(prefix)}
    size = properties.get(_DELETE_TARGET_SIZE, str(_DEFAULT_DELETE_TARGET_SIZE))
    return _OPTIONS[file_format].from_properties({**properties, **own, _TARGET_SIZE: size})
