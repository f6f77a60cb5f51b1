"""The properties of tables and views that this engine reads: the name, values and default of each.

They are declared here alone: readers ask a property for its value among a table's properties, and
docs/properties.md is made from here. Who sets one is told at once where a value is none of its values. Tables of other
engines may have any: readers decide with `of` or `or_default` what becomes of a value that can't be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from icecore.engine.errors import ValidationError
from icecore.engine.properties.property_values import (
    Choice,
    Flag,
    Folder,
    MetricsModeText,
    NameMappingJson,
    Unsupported,
    Values,
    Whole,
)

MIB = 1024 * 1024
T = TypeVar("T")


@frozen
class KnownProperty(Generic[T]):
    """A property; a name that ends in a dot stands for all that begin with it, followed by a column's name.

    `default` is what counts where the table does not have it, None where there is nothing.
    """

    name: str
    values: Values[T]
    default: str | None
    doc: str = field(repr=False)
    default_value: T | None = field(init=False, repr=False, eq=False)

    @default_value.default
    def _parsed_default(self) -> T | None:
        return None if self.default is None else self.values.parse(self.default)

    def find(self, properties: Mapping[str, str]) -> T | None:
        """The value, None where there is none. Raises ValidationError for one that can't be read."""
        text = properties.get(self.name)
        if text is None:
            return None
        value = self.values.parse(text)
        if value is None and not isinstance(self.values, Folder):
            raise ValidationError(f"the property {self.name} must be {self.values.expected}, found {text[:200]!r}")
        return value

    def of(self, properties: Mapping[str, str]) -> T:
        """The value, or the default of a property that has one. Raises ValidationError for one that can't be read."""
        value = self.find(properties)
        return self._default() if value is None else value

    def or_default(self, properties: Mapping[str, str]) -> T:
        """The value, or the default where it is not set or can't be read."""
        text = properties.get(self.name)
        value = None if text is None else self.values.parse(text)
        return self._default() if value is None else value

    def _default(self) -> T:
        assert self.default_value is not None, "properties without a default are asked with find"
        return self.default_value


_DECLARED: list[KnownProperty[Any]] = []


def _table(name: str, values: Values[T], default: str | None, doc: str) -> KnownProperty[T]:
    known = KnownProperty(name, values, default, doc)
    _DECLARED.append(known)
    return known


_COUNT = Whole(1)
_LEVEL = Whole(-(2**17), 22)
_ISOLATION = Choice(("serializable", "snapshot"))
_MODE = Choice(("copy-on-write", "merge-on-read"))
_FORMAT = Choice(("parquet", "orc", "avro"))
_PARQUET_CODEC = Choice(("zstd", "snappy", "gzip", "brotli", "lz4", "lz4_raw", "uncompressed", "none"))
# Trino says gzip for what ORC calls zlib.
_ORC_CODEC = Choice(("zlib", "gzip", "zstd", "snappy", "lz4", "none", "uncompressed"))
_AVRO_CODEC = Choice(("gzip", "zstd", "snappy", "uncompressed", "none"))
_METADATA_CODEC = Choice(("none", "gzip"))
_NO_PROVIDER = Unsupported("absent: of location providers only those of folders and of object storage are here")

METASTORE = "metastore"
FILE_SYSTEM = "filesystem"
COMMIT_SCHEME = _table(
    "icecore.commit-scheme",
    Choice((METASTORE, FILE_SYSTEM), exact=True),
    METASTORE,
    "How versions are named and made.",
)
MANUAL = "manual"
MATERIALIZE = _table(
    "icecore.materialize", Choice(("commit", MANUAL)), "commit", "When files for other engines are written."
)

REQUIRE_MESSAGE = _table(
    "icecore.require-message",
    Flag(),
    "false",
    "Whether each commit must say why; as a property of a namespace, to all tables in it.",
)
for _name, _default, _doc in (
    ("small-file-bytes", 16 * MIB, "Below which size `icecore audit` calls a data file small."),
    ("small-files", 20, "How many small files `icecore audit` lets a partition have."),
    ("skew", 10, "By how many times `icecore audit` lets a partition exceed the middle one."),
    ("skewed-bytes", 128 * MIB, "Up to which size `icecore audit` calls no partition skewed."),
    ("delete-percent", 20, "Up to which part `icecore audit` lets rows be deleted by delete files, in percent."),
    ("orphan-days", 3, "After how many days `icecore audit` calls a file that nothing needs an orphan."),
):
    _table(f"icecore.audit.{_name}", Whole(0), str(_default), _doc)

# A race is lost inside of this engine's own lock, so that another try costs little: where the table does not say how
# often, it is more often than Java's 4, after shorter waits than its 100 ms to 60 s.
NUM_RETRIES = _table("commit.retry.num-retries", Whole(), "19", "How often a commit that lost a race is made again.")
MIN_WAIT_MS = _table("commit.retry.min-wait-ms", Whole(), "5", "The least wait before a retry.")
MAX_WAIT_MS = _table("commit.retry.max-wait-ms", Whole(), "1000", "The most that is waited before a retry.")
TOTAL_TIMEOUT_MS = _table("commit.retry.total-timeout-ms", Whole(), "1800000", "How long is retried in all.")
MERGE_ENABLED = _table("commit.manifest-merge.enabled", Flag(), "true", "Whether commits merge manifests.")
MIN_COUNT_TO_MERGE = _table(
    "commit.manifest.min-count-to-merge", Whole(), "100", "How many manifests there must be to merge the newest."
)
MANIFEST_SIZE = _table("commit.manifest.target-size-bytes", _COUNT, str(8 * MIB), "The size of merged manifests.")

GC_ENABLED = _table("gc.enabled", Flag(), "true", "Whether files may be deleted; others may need them where not.")
MAX_SNAPSHOT_AGE_MS = _table(
    "history.expire.max-snapshot-age-ms", Whole(), str(5 * 24 * 3600 * 1000), "How old snapshots become."
)
MIN_SNAPSHOTS_TO_KEEP = _table(
    "history.expire.min-snapshots-to-keep", Whole(), "1", "How many snapshots of a branch stay however old."
)
MAX_REF_AGE_MS = _table("history.expire.max-ref-age-ms", Whole(), None, "How old branches and tags become.")

SPLIT_SIZE = _table("read.split.target-size", _COUNT, str(128 * MIB), "The size of what one task reads.")
SPLIT_LOOKBACK = _table(
    "read.split.planning-lookback", _COUNT, "10", "How many tasks are open while splits are packed."
)
OPEN_FILE_COST = _table("read.split.open-file-cost", Whole(), str(4 * MIB), "What opening a file counts as, in bytes.")
NAME_MAPPING = _table("schema.name-mapping.default", NameMappingJson(), None, "The fields of files without field ids.")

DATA_PATH = _table("write.data.path", Folder(), "data", "Where data files go.")
FOLDER_STORAGE_PATH = _table("write.folder-storage.path", Folder(), None, "An older name of write.data.path.")
METADATA_PATH = _table("write.metadata.path", Folder(), "metadata", "Where metadata files go.")
OBJECT_STORAGE = _table(
    "write.object-storage.enabled",
    Flag(),
    "false",
    "Whether names of data files begin with hash bits, which spreads them over an object store.",
)
PARTITIONED_PATHS = _table(
    "write.object-storage.partitioned-paths", Flag(), "true", "Whether partitions are in the paths of object storage."
)
OBJECT_STORAGE_PATH = _table(
    "write.object-storage.path", Folder(), None, "An older name of write.data.path, for object storage."
)
PATHS = tuple(p.name for p in (DATA_PATH, OBJECT_STORAGE_PATH, FOLDER_STORAGE_PATH, METADATA_PATH))
"""The properties that have files of a table go elsewhere than under its location."""
LOCATION_PROVIDERS = (
    _table("write.location-provider.impl", _NO_PROVIDER, None, "A class of Java that names data files."),
    _table("write.py-location-provider.impl", _NO_PROVIDER, None, "A class of PyIceberg that names data files."),
)

METADATA_COMPRESSION = _table(
    "write.metadata.compression-codec", _METADATA_CODEC, "none", "How metadata files are compressed."
)
PREVIOUS_VERSIONS_MAX = _table(
    "write.metadata.previous-versions-max", Whole(), "100", "How many metadata files the metadata log names."
)
DELETE_AFTER_COMMIT = _table(
    "write.metadata.delete-after-commit.enabled",
    Flag(),
    "false",
    "Whether metadata files that the log let go are deleted.",
)
METRICS_DEFAULT = _table(
    "write.metadata.metrics.default", MetricsModeText(), "truncate(16)", "How much is recorded of columns."
)
METRICS_OF_COLUMN = _table(
    "write.metadata.metrics.column.", MetricsModeText(), None, "How much is recorded of one column."
)
METRICS_MAX_INFERRED = _table(
    "write.metadata.metrics.max-inferred-column-defaults", Whole(), "100", "How many columns have metrics by default."
)
OF_COLUMNS = (
    METRICS_OF_COLUMN.name,
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.stats-enabled.column.",
)
"""What properties of a single column begin with: they follow its renames and go with it. Readers ask for the first."""

WAP_ENABLED = _table("write.wap.enabled", Flag(), "false", "Whether snapshots are staged for audit.")
DISTRIBUTION_MODE = _table(
    "write.distribution-mode",
    Choice(("none", "hash", "range"), exact=True),
    "hash",
    "How Spark moves rows before they are written.",
)
DELETE_GRANULARITY = _table(
    "write.delete.granularity",
    Choice(("file", "partition")),
    "file",
    "Whether data files share position delete files.",
)
DELETE_ISOLATION, UPDATE_ISOLATION, MERGE_ISOLATION = (
    _table(
        f"write.{verb}.isolation-level",
        _ISOLATION,
        "serializable",
        f"What conflicts with {verb}s that are decided on a base.",
    )
    for verb in ("delete", "update", "merge")
)
DELETE_MODE, UPDATE_MODE, MERGE_MODE = (
    _table(f"write.{verb}.mode", _MODE, "copy-on-write", f"How {verb}s change rows.")
    for verb in ("delete", "update", "merge")
)

DATA_FORMAT = _table("write.format.default", _FORMAT, "parquet", "The format of data files.")
DELETE_FORMAT = _table(
    "write.delete.format.default", _FORMAT, None, "The format of delete files, else that of data files."
)
TARGET_FILE_SIZE = _table("write.target-file-size-bytes", _COUNT, str(512 * MIB), "The size of data files.")
DELETE_TARGET_FILE_SIZE = _table(
    "write.delete.target-file-size-bytes", _COUNT, str(64 * MIB), "The size of delete files."
)


def _of_files(name: str, values: Values[T], default: str | None, doc: str) -> KnownProperty[T]:
    """A property of data files, which has another of delete files beside it."""
    _table(f"write.delete.{name}", values, None, f"{doc} delete files, else as in data files.")
    return _table(f"write.{name}", values, default, f"{doc} data files.")


PARQUET_CODEC = _of_files("parquet.compression-codec", _PARQUET_CODEC, "zstd", "How Parquet compresses")
PARQUET_LEVEL = _of_files("parquet.compression-level", _LEVEL, None, "How much Parquet compresses")
PARQUET_ROW_GROUP_SIZE = _of_files(
    "parquet.row-group-size-bytes", _COUNT, str(128 * MIB), "The size of row groups in Parquet"
)
PARQUET_ROW_GROUP_ROWS = _of_files("parquet.row-group-limit", _COUNT, str(MIB), "The rows of a row group in Parquet")
PARQUET_PAGE_SIZE = _of_files("parquet.page-size-bytes", _COUNT, str(MIB), "The size of pages in Parquet")
PARQUET_DICTIONARY_SIZE = _of_files(
    "parquet.dict-size-bytes", _COUNT, str(2 * MIB), "The size of dictionaries in Parquet"
)
ORC_CODEC = _of_files("orc.compression-codec", _ORC_CODEC, "zlib", "How ORC compresses")
ORC_STRATEGY = _of_files(
    "orc.compression-strategy", Choice(("speed", "compression")), "speed", "What ORC compresses for in"
)
ORC_STRIPE_SIZE = _of_files("orc.stripe-size-bytes", _COUNT, str(64 * MIB), "The size of stripes in ORC")
AVRO_CODEC = _of_files("avro.compression-codec", _AVRO_CODEC, "gzip", "How Avro compresses")
AVRO_LEVEL = _of_files("avro.compression-level", _LEVEL, None, "How much Avro compresses")

PROPERTIES: tuple[KnownProperty[Any], ...] = tuple(_DECLARED)
_BY_NAME = {p.name: p for p in PROPERTIES}
_PREFIXES = tuple(p for p in PROPERTIES if p.name.endswith("."))

VIEW_HISTORY_SIZE = KnownProperty(
    "version.history.num-entries", Whole(1, 10**9 - 1), "10", "How many versions a view keeps."
)
VIEW_METADATA_COMPRESSION = KnownProperty(
    METADATA_COMPRESSION.name, _METADATA_CODEC, "gzip", "How metadata files of a view are compressed."
)
DROP_DIALECT_ALLOWED = KnownProperty(
    "replace.drop-dialect.allowed", Flag(), "false", "Whether a new version may lack a dialect of the one before."
)
VIEW_PROPERTIES: tuple[KnownProperty[Any], ...] = (VIEW_HISTORY_SIZE, VIEW_METADATA_COMPRESSION, DROP_DIALECT_ALLOWED)


def known_property(name: str) -> KnownProperty[Any] | None:
    """The table property of a name; None for one that this engine doesn't read."""
    return _BY_NAME.get(name) or next((p for p in _PREFIXES if name.startswith(p.name)), None)


def check_values(properties: Mapping[str, str]) -> None:
    """Raises ValidationError, naming the allowed values, for a value that a known property can't have."""
    for name, value in properties.items():
        known = known_property(name)
        if known is not None and (expected := known.values.fault(value)) is not None:
            raise ValidationError(f"the property {name} must be {expected}, found {value[:200]!r}")


def of_delete_files(properties: Mapping[str, str], file_format: str) -> dict[str, str]:
    """The properties with those of delete files of a format and their size in the places of the data files' ones.

    The format is named in lower case.
    """
    prefix = f"write.delete.{file_format}."
    own = {f"write.{key.removeprefix('write.delete.')}": v for key, v in properties.items() if key.startswith(prefix)}
    size = properties.get(DELETE_TARGET_FILE_SIZE.name, DELETE_TARGET_FILE_SIZE.default or "")
    return {**properties, **own, TARGET_FILE_SIZE.name: size}
