"""The names of a table's files, as this engine, Java, PyIceberg, Spark, Trino, Impala, Hive and Flink give them."""

from __future__ import annotations

import re
from collections.abc import Callable

from icecore.engine.metadata.fold import TableState
from icecore.projections.files.version_hint import VERSION_HINT

_ENDINGS = (
    # Data and delete files; Impala shortens the first one.
    ".parquet",
    ".parq",
    ".orc",
    # Data and delete files, manifests and manifest lists.
    ".avro",
    # Deletion vectors and statistics; Trino calls the latter by what they are.
    ".puffin",
    ".stats",
    # Gzip goes before the ending or after it.
    ".metadata.json",
    ".metadata.json.gz",
)
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")


def is_table_file(location: str) -> bool:
    """Whether the name is one of data, delete, statistics and metadata files, version hints or our unfinished files."""
    name = location.rsplit("/", 1)[-1]
    return name.casefold().endswith(_ENDINGS) or name == VERSION_HINT or is_unfinished(name)


def is_unfinished(name: str) -> bool:
    """Whether the name is one of a file that this engine has not finished writing."""
    return _UNFINISHED.fullmatch(name) is not None


def hidden_in(state: TableState) -> Callable[[str], bool]:
    """A test of hidden files and folders: by `_` or `.`, without partition folders and unfinished files of ours."""
    partitions = tuple(
        f"{f.name}=" for spec in state.metadata.partition_specs for f in spec.fields if f.name[:1] in ("_", ".")
    )

    def hidden(name: str) -> bool:
        if name[:1] not in ("_", ".") or is_unfinished(name):
            return False
        return not (partitions and name.startswith(partitions))

    return hidden
