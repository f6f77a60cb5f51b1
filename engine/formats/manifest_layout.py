"""The layout of a manifest: which field of its writer schema is which column of the canonical entry.

Fields are matched by field id; by name only where the writer left the id out (M4). The result is a stripped record
schema (`avro_schema.Stripper`) with the canonical names, so that every decoder yields raw values under them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats import avro_schema
from icecore.engine.formats.avro_schema import FIELD_ID, FIELD_NAME, Stripper, unwrap
from icecore.engine.formats.entry_arrow import METRICS
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import VoidTransform

ENTRY_IDS = {0: "status", 1: "snapshot_id", 2: "data_file", 3: "sequence_number", 4: "file_sequence_number"}
DATA_FILE_IDS = {
    134: "content",
    100: "file_path",
    101: "file_format",
    102: "partition",
    103: "record_count",
    104: "file_size_in_bytes",
    108: "column_sizes",
    109: "value_counts",
    110: "null_value_counts",
    137: "nan_value_counts",
    125: "lower_bounds",
    128: "upper_bounds",
    131: "key_metadata",
    132: "split_offsets",
    135: "equality_ids",
    140: "sort_order_id",
    142: "first_row_id",
    143: "referenced_data_file",
    144: "content_offset",
    145: "content_size_in_bytes",
}
REQUIRED = ("status", "file_path", "file_format", "record_count", "file_size_in_bytes")
_KEY_IDS = (117, 119, 121, 138, 126, 129)
_PAIR_IDS = dict.fromkeys(_KEY_IDS, "key") | {i + 1: "value" for i in _KEY_IDS}


@frozen
class PartitionColumn:
    """A field of the partition record: its partition field id and its plain Avro type, null taken out.

    The type is None if it is a union of more than null and one type.
    """

    name: str
    field_id: int
    avro_type: Any


@frozen
class EntryLayout:
    """The layout of one manifest's entries: a stripped schema, the partition columns and the canonical columns."""

    schema: dict[str, Any]
    partition: tuple[PartitionColumn, ...]
    columns: frozenset[str]


def entry_layout(writer_schema: Any, specs: Sequence[PartitionSpec], where: str) -> EntryLayout:
    """The layout of a manifest's writer schema.

    The first of `specs` that names them all gives the ids of partition fields that have none in the file. Raises
    CorruptFileError where the schema is not one of a manifest.
    """
    plain = avro_schema.resolve(writer_schema, where)
    builder = _Builder(specs, where)
    schema = builder.entry(_record(plain, "the entry", where))
    missing = [name for name in REQUIRED if name not in builder.columns]
    if missing:
        raise CorruptFileError(f"{where} is not a manifest: its Avro schema lacks {', '.join(missing)}")
    return EntryLayout(schema, tuple(builder.partition), frozenset(builder.columns))


def unlisted_spec(writer_schema: Any, where: str) -> PartitionSpec:
    """A spec that gives a manifest's partition fields made-up ids, for callers that need their values alone.

    Raises CorruptFileError where the schema is not one of a manifest.
    """
    entry = _record(avro_schema.resolve(writer_schema, where), "the entry", where)
    data_file = next((f for f in entry if f["name"] == "data_file" or f.get(FIELD_ID) == 2), None)
    inside = [] if data_file is None else _record(data_file["type"], "data_file", where)
    partition = next((f for f in inside if f["name"] == "partition" or f.get(FIELD_ID) == 102), None)
    fields = (_fields(partition["type"]) if partition is not None else None) or []
    names = [f.get(FIELD_NAME, f["name"]) for f in fields]
    return PartitionSpec(
        tuple(PartitionField((i,), -i, VoidTransform(), name) for i, name in enumerate(names, 1)), spec_id=0
    )


def names_by_field(fields: list[Any], known: Mapping[int, str], where: str) -> list[str | None]:
    """The names that the fields' ids stand for, None for unknown ones; a field without an id counts by its own name.

    Raises CorruptFileError where two fields stand for one name.
    """
    names = [known.get(f[FIELD_ID]) if isinstance(f.get(FIELD_ID), int) else None for f in fields]
    present = [n for n in names if n is not None]
    if len(set(present)) != len(present):
        raise CorruptFileError(f"{where}: a field id is used twice in the Avro schema, found {sorted(present)}")
    for i, f in enumerate(fields):
        if FIELD_ID not in f and f.get("name") in known.values() and f["name"] not in names:
            names[i] = f["name"]
    return names


class _Builder:
    def __init__(self, specs: Sequence[PartitionSpec], where: str) -> None:
        self.specs, self.where = specs, where
        self.stripper = Stripper(where)
        self.partition: list[PartitionColumn] = []
        self.columns: set[str] = set()

    def entry(self, fields: list[Any]) -> dict[str, Any]:
        return self._renamed(fields, ENTRY_IDS, "e")

    def _renamed(self, fields: list[Any], known: Mapping[int, str], prefix: str) -> dict[str, Any]:
        out = []
        for i, (f, name) in enumerate(zip(fields, names_by_field(fields, known, self.where), strict=True)):
            if name == "partition" and self._is_no_tuple(f["type"]):
                name = None
            out.append((name or f"{prefix}{i}", self._field(name, f["type"])))
            if name is not None:
                self.columns.add(name)
        return self.stripper.record(out)

    def _is_no_tuple(self, plain: Any) -> bool:
        """Whether an unpartitioned manifest has something else for the empty tuple, such as a null or an int.

        If the table's spec has partition fields after all, `wide_entries` refuses its entries, so no plan uses them.
        """
        fields = self.specs[0].fields if self.specs else ()
        return _fields(plain) is None and all(isinstance(f.transform, VoidTransform) for f in fields)

    def _field(self, name: str | None, plain: Any) -> Any:
        if name == "data_file":
            return _rewrapped(plain, self._renamed(_record(plain, "data_file", self.where), DATA_FILE_IDS, "d"))
        if name == "partition":
            return _rewrapped(plain, self._partition(_record(plain, "partition", self.where)))
        if name in METRICS:
            return self._map(name, plain)
        return self.stripper.strip(plain)

    def _map(self, name: str, plain: Any) -> Any:
        """An array of pairs; the pair's fields are told by id, else by name, else, where it has no others, by order."""
        outer = unwrap(plain)
        if outer is None or outer.inner["type"] not in ("array", "map"):
            raise CorruptFileError(f"{self.where}: the Avro type of {name} is not a map")
        if outer.inner["type"] == "map":
            return self.stripper.strip(plain)
        item = outer.inner["items"]
        fields = _record(item, f"an entry of {name}", self.where)
        names = names_by_field(fields, _PAIR_IDS, self.where)
        if len(fields) == 2 and None in names:
            names = ["value", "key"] if names[1] == "key" or names[0] == "value" else ["key", "value"]
        if not {"key", "value"} <= {*names}:
            raise CorruptFileError(f"{self.where}: an entry of {name} must have a key and a value")
        pair = self.stripper.record(
            [(n or f"x{i}", self.stripper.strip(f["type"])) for i, (n, f) in enumerate(zip(names, fields, strict=True))]
        )
        return _rewrapped(plain, self.stripper.array(_rewrapped(item, pair)))

    def _partition(self, fields: list[Any]) -> dict[str, Any]:
        out = []
        for i, (f, field_id) in enumerate(zip(fields, self._partition_ids(fields), strict=True)):
            column = f"p{i}"
            out.append((column, self.stripper.strip(f["type"])))
            if field_id is not None:
                inner = unwrap(f["type"])
                self.partition.append(PartitionColumn(column, field_id, None if inner is None else inner.inner))
        return self.stripper.record(out)

    def _partition_ids(self, fields: list[Any]) -> list[int | None]:
        ids: list[int | None] = [f[FIELD_ID] if isinstance(f.get(FIELD_ID), int) else None for f in fields]
        present = [i for i in ids if i is not None]
        if len(set(present)) != len(present):
            raise CorruptFileError(f"{self.where}: a partition field id is used twice: {present}")
        unnamed = [f for f, field_id in zip(fields, ids, strict=True) if field_id is None]
        told = iter(self._ids_by_name(unnamed, present) if unnamed else ())
        return [next(told) if field_id is None else field_id for field_id in ids]

    def _ids_by_name(self, fields: list[Any], taken: list[int]) -> list[int]:
        for spec in self.specs:
            free = {p.field_id: p.name for p in spec.fields if p.field_id not in taken}
            found = [_ids_of_name(f, free) for f in fields]
            ids = [i for of_one in found for i in of_one]
            if all(len(of_one) == 1 for of_one in found) and len(set(ids)) == len(ids):
                return ids
        names = ", ".join(repr(f["name"]) for f in fields)
        raise CorruptFileError(
            f"{self.where}: partition field {names} has no field id, and no spec has one field alone of that name"
        )


def _ids_of_name(f: Any, free: Mapping[int, str]) -> list[int]:
    """The ids of the spec's fields whose name is that of a field in the file, or else whose sanitized name is."""
    exact = [i for i, name in free.items() if name == f.get(FIELD_NAME, f["name"])]
    return exact or [i for i, name in free.items() if avro_schema.sanitize(name) == f["name"]]


def _record(plain: Any, what: str, where: str) -> list[Any]:
    """The fields of a record, which may be in a union with null."""
    fields = _fields(plain)
    if fields is None:
        raise CorruptFileError(f"{where} is not a manifest: the Avro type of {what} must be a record")
    return fields


def _fields(plain: Any) -> list[Any] | None:
    inner = unwrap(plain)
    return inner.inner["fields"] if inner is not None and inner.inner["type"] in ("record", "error") else None


def _rewrapped(plain: Any, new: Any) -> Any:
    """The new type in the same union with null as the old one."""
    return ["null" if t["type"] == "null" else new for t in plain] if isinstance(plain, list) else new
