"""The table properties that this engine reads: for each its values, what counts without it, and what it does.

Who sets one is told at once where a value is none of its values. Tables of other engines may have any: readers of
single values decide what they make of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

from icecore.engine.errors import ValidationError

MIB = 1024 * 1024


@frozen
class Choice:
    """One of some words, in any case of letters unless `exact`."""

    values: tuple[str, ...]
    exact: bool = False

    def fault(self, text: str) -> str | None:
        return None if (text if self.exact else text.lower()) in self.values else self.expected

    @property
    def expected(self) -> str:
        return " or ".join(self.values) if len(self.values) < 3 else f"one of {', '.join(self.values)}"


@frozen
class Whole:
    """A whole number in decimal digits, at least `least`; a minus may stand before it where that is below zero."""

    least: int = 0
    most: int = 2**63 - 1

    def fault(self, text: str) -> str | None:
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            return self.expected
        return None if self.least <= int(text) <= self.most else self.expected

    @property
    def expected(self) -> str:
        most = "" if self.most == 2**63 - 1 else f" to {self.most}"
        return f"a whole number from {self.least}{most}"


@frozen
class MetricsModeProperty:
    """How much is recorded of a column."""

    expected: str = "none, counts, truncate(<length>) or full"

    def fault(self, text: str) -> str | None:
        fits = re.fullmatch(r"none|counts|full|truncate\(0*[1-9][0-9]*\)", text.strip().lower())
        return None if fits else self.expected


@frozen
class Folder:
    """The location of a folder."""

    expected: str = "the location of a folder"

    def fault(self, text: str) -> str | None:
        return None if text.strip() and "\0" not in text else self.expected


@frozen
class NameMappingJson:
    """A name mapping as JSON."""

    expected: str = "a name mapping as JSON"

    def fault(self, text: str) -> str | None:
        from icecore.engine.spec.name_mapping import NameMapping

        try:
            NameMapping.from_json(text)
        except ValidationError as e:
            return f"{self.expected} ({e})"
        return None


@frozen
class Unsupported:
    """What this engine can't do, so that it may not be asked for."""

    expected: str

    def fault(self, text: str) -> str | None:
        return self.expected


Values = Choice | Whole | MetricsModeProperty | Folder | NameMappingJson | Unsupported


@frozen
class KnownProperty:
    """A table property; a name that ends in a dot stands for all that begin with it, followed by a column's name.

    `default` is what counts where the table does not have it, None where there is nothing.
    """

    name: str
    values: Values
    default: str | None
    doc: str = field(repr=False)


FLAG = Choice(("true", "false"))
COUNT = Whole(1)
_ISOLATION = Choice(("serializable", "snapshot"))
_MODE = Choice(("copy-on-write", "merge-on-read"))
_FORMAT = Choice(("parquet", "orc", "avro"))
_PARQUET_CODEC = Choice(("zstd", "snappy", "gzip", "brotli", "lz4", "lz4_raw", "uncompressed", "none"))
_ORC_CODEC = Choice(("zlib", "zstd", "snappy", "lz4", "none", "uncompressed"))
_AVRO_CODEC = Choice(("gzip", "zstd", "snappy", "uncompressed", "none"))
_NO_PROVIDER = Unsupported("absent: of location providers only those of folders and of object storage are here")

PROPERTIES: tuple[KnownProperty, ...] = (
    KnownProperty(
        "icecore.commit-scheme",
        Choice(("metastore", "filesystem"), exact=True),
        "metastore",
        "How versions are named and made.",
    ),
    KnownProperty(
        "icecore.materialize", Choice(("commit", "manual")), "commit", "When files for other engines are written."
    ),
    KnownProperty("commit.retry.num-retries", Whole(), "19", "How often a commit that lost a race is made again."),
    KnownProperty("commit.retry.min-wait-ms", Whole(), "5", "The least wait before a retry."),
    KnownProperty("commit.retry.max-wait-ms", Whole(), "1000", "The most that is waited before a retry."),
    KnownProperty("commit.retry.total-timeout-ms", Whole(), "1800000", "How long is retried in all."),
    KnownProperty("commit.manifest-merge.enabled", FLAG, "true", "Whether commits merge manifests."),
    KnownProperty(
        "commit.manifest.min-count-to-merge", Whole(), "100", "How many manifests there must be to merge the newest."
    ),
    KnownProperty("commit.manifest.target-size-bytes", COUNT, str(8 * MIB), "The size of merged manifests."),
    KnownProperty("gc.enabled", FLAG, "true", "Whether files may be deleted; others may need them where not."),
    KnownProperty(
        "history.expire.max-snapshot-age-ms", Whole(), str(5 * 24 * 3600 * 1000), "How old snapshots become."
    ),
    KnownProperty(
        "history.expire.min-snapshots-to-keep", Whole(), "1", "How many snapshots of a branch stay however old."
    ),
    KnownProperty("history.expire.max-ref-age-ms", Whole(), None, "How old branches and tags become."),
    KnownProperty("read.split.target-size", COUNT, str(128 * MIB), "The size of what one task reads."),
    KnownProperty("read.split.planning-lookback", COUNT, "10", "How many tasks are open while splits are packed."),
    KnownProperty("read.split.open-file-cost", Whole(), str(4 * MIB), "What opening a file counts as, in bytes."),
    KnownProperty("schema.name-mapping.default", NameMappingJson(), None, "The fields of files without field ids."),
    KnownProperty("write.data.path", Folder(), "data", "Where data files go."),
    KnownProperty("write.folder-storage.path", Folder(), None, "An older name of write.data.path."),
    KnownProperty("write.metadata.path", Folder(), "metadata", "Where metadata files go."),
    KnownProperty(
        "write.object-storage.enabled",
        FLAG,
        "false",
        "Whether names of data files begin with hash bits, which spreads them over an object store.",
    ),
    KnownProperty(
        "write.object-storage.partitioned-paths", FLAG, "true", "Whether partitions are in the paths of object storage."
    ),
    KnownProperty("write.object-storage.path", Folder(), None, "An older name of write.data.path, for object storage."),
    KnownProperty("write.location-provider.impl", _NO_PROVIDER, None, "A class of Java that names data files."),
    KnownProperty("write.py-location-provider.impl", _NO_PROVIDER, None, "A class of PyIceberg that names data files."),
    KnownProperty(
        "write.metadata.compression-codec", Choice(("none", "gzip")), "none", "How metadata files are compressed."
    ),
    KnownProperty(
        "write.metadata.previous-versions-max", Whole(), "100", "How many metadata files the metadata log names."
    ),
    KnownProperty(
        "write.metadata.delete-after-commit.enabled",
        FLAG,
        "false",
        "Whether metadata files that the log let go are deleted.",
    ),
    KnownProperty(
        "write.metadata.metrics.default", MetricsModeProperty(), "truncate(16)", "How much is recorded of columns."
    ),
    KnownProperty("write.metadata.metrics.column.", MetricsModeProperty(), None, "How much is recorded of one column."),
    KnownProperty(
        "write.metadata.metrics.max-inferred-column-defaults",
        Whole(),
        "100",
        "How many columns have metrics by default.",
    ),
    KnownProperty("write.wap.enabled", FLAG, "false", "Whether snapshots are staged for audit."),
    KnownProperty(
        "write.distribution-mode",
        Choice(("none", "hash", "range"), exact=True),
        "hash",
        "How Spark moves rows before they are written.",
    ),
    KnownProperty(
        "write.delete.granularity",
        Choice(("file", "partition")),
        "file",
        "Whether data files share position delete files.",
    ),
    *(
        KnownProperty(f"write.{verb}.isolation-level", _ISOLATION, "serializable", f"What is a conflict of a {verb}.")
        for verb in ("delete", "update", "merge")
    ),
    *(
        KnownProperty(f"write.{verb}.mode", _MODE, "copy-on-write", f"How a {verb} changes rows.")
        for verb in ("delete", "update", "merge")
    ),
    KnownProperty("write.format.default", _FORMAT, "parquet", "The format of data files."),
    KnownProperty("write.delete.format.default", _FORMAT, None, "The format of delete files, else that of data files."),
    KnownProperty("write.target-file-size-bytes", COUNT, str(512 * MIB), "The size of data files."),
    KnownProperty("write.delete.target-file-size-bytes", COUNT, str(64 * MIB), "The size of delete files."),
    *(
        KnownProperty(f"write.{of}{name}", values, default, f"{doc} {'delete' if of else 'data'} files.")
        for of in ("", "delete.")
        for name, values, default, doc in (
            ("parquet.compression-codec", _PARQUET_CODEC, "zstd", "How Parquet compresses"),
            ("parquet.compression-level", Whole(-(2**17), 22), None, "How much Parquet compresses"),
            ("parquet.row-group-size-bytes", COUNT, str(128 * MIB), "The size of row groups in Parquet"),
            ("parquet.row-group-limit", COUNT, str(MIB), "The rows of a row group in Parquet"),
            ("parquet.page-size-bytes", COUNT, str(MIB), "The size of pages in Parquet"),
            ("parquet.dict-size-bytes", COUNT, str(2 * MIB), "The size of dictionaries in Parquet"),
            ("orc.compression-codec", _ORC_CODEC, "zlib", "How ORC compresses"),
            ("orc.compression-strategy", Choice(("speed", "compression")), "speed", "What ORC compresses for in"),
            ("orc.stripe-size-bytes", COUNT, str(64 * MIB), "The size of stripes in ORC"),
            ("avro.compression-codec", _AVRO_CODEC, "gzip", "How Avro compresses"),
            ("avro.compression-level", Whole(-(2**17), 22), None, "How much Avro compresses"),
        )
    ),
)
_BY_NAME = {p.name: p for p in PROPERTIES}
_PREFIXES = tuple(p for p in PROPERTIES if p.name.endswith("."))


def known_property(name: str) -> KnownProperty | None:
    """The property of a name; None for one that means nothing here."""
    return _BY_NAME.get(name) or next((p for p in _PREFIXES if name.startswith(p.name)), None)


def check_values(properties: Mapping[str, str]) -> None:
    """Raises ValidationError for a value that is none of a known property's, naming what it may be."""
    for name, value in properties.items():
        known = known_property(name)
        if known is not None and (expected := known.values.fault(value)) is not None:
            raise ValidationError(f"the property {name} must be {expected}, found {value[:200]!r}")


def flag(properties: Mapping[str, str], name: str) -> bool:
    """Whether a flag is set; as in Java whatever is not true is false."""
    return value_of(properties, name).lower() == "true"


def value_of(properties: Mapping[str, str], name: str) -> str:
    """The value of a known property that has a default, or that default."""
    default = _BY_NAME[name].default
    assert default is not None, "such properties are asked for otherwise"
    return properties.get(name, default)
