"""The groups of data files to be rewritten together: the rules and option names of the Java library's planner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from icecore.engine.common.text import number_in
from icecore.engine.errors import ValidationError
from icecore.engine.properties.table_properties import TARGET_FILE_SIZE
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import ROWS_AT_HAND
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.plan.deletes.delete_pairs import numbered
from icecore.projections.plan.planner import PlannedFiles

_SPLIT_OVERHEAD = 5 * 1024
_NEVER = 2**31 - 1


@frozen
class CompactionOptions:
    """The options of a compaction, with Java's names and defaults. Sizes are in bytes."""

    target_file_size_bytes: int
    min_file_size_bytes: int
    max_file_size_bytes: int
    min_input_files: int
    delete_file_threshold: int
    delete_ratio_threshold: float
    max_file_group_size_bytes: int
    max_file_group_input_files: int
    output_spec_id: int
    max_files_to_rewrite: int | None = None
    rewrite_all: bool = False
    use_starting_sequence_number: bool = True
    remove_dangling_deletes: bool = False
    partial_progress: bool = False
    max_commits: int = 10

    @classmethod
    def of(cls, options: Mapping[str, Any], metadata: TableMetadata) -> CompactionOptions:
        """The options by Java's names; values are numbers, booleans or texts of them. Raises ValidationError."""
        given = RewriteOptions(options)
        target = given.number("target-file-size-bytes", TARGET_FILE_SIZE.of(metadata.properties))
        chosen = cls(
            target,
            given.number("min-file-size-bytes", int(target * 0.75), least=0),
            given.number("max-file-size-bytes", int(target * 1.8)),
            given.number("min-input-files", 5),
            given.number("delete-file-threshold", _NEVER, least=0),
            given.ratio("delete-ratio-threshold", 0.3),
            given.number("max-file-group-size-bytes", 100 * 1024**3),
            given.number("max-file-group-input-files", 2**63 - 1),
            given.number("output-spec-id", metadata.default_spec_id, least=0),
            given.number("max-files-to-rewrite", 0) or None,
            given.boolean("rewrite-all", False),
            given.boolean("use-starting-sequence-number", True),
            given.boolean("remove-dangling-deletes", False),
            given.boolean("partial-progress.enabled", False),
            given.number("partial-progress.max-commits", 10),
        )
        given.check_all_used()
        if not chosen.min_file_size_bytes < target < chosen.max_file_size_bytes:
            raise ValidationError(
                f"target-file-size-bytes ({target}) must be above min-file-size-bytes ({chosen.min_file_size_bytes}) "
                f"and below max-file-size-bytes ({chosen.max_file_size_bytes})"
            )
        if chosen.output_spec_id not in metadata.specs:
            raise ValidationError(f"output-spec-id: the table has no partition spec {chosen.output_spec_id}")
        return chosen

    @property
    def write_max_file_size(self) -> int:
        """The size that a written file may grow to: halfway from the target to the maximum."""
        return int(self.target_file_size_bytes + (self.max_file_size_bytes - self.target_file_size_bytes) * 0.5)

    def output_file_size(self, input_size: int) -> int:
        """The size at which a new file is begun: near the target, and such that files divide the input evenly."""
        most = self.write_max_file_size
        estimated = input_size // self.output_files(input_size) + _SPLIT_OVERHEAD
        return self.target_file_size_bytes if estimated < self.target_file_size_bytes else min(estimated, most)

    def output_files(self, input_size: int) -> int:
        """The number of files of about the target's size."""
        target = self.target_file_size_bytes
        if input_size < target:
            return 1
        whole, rest = divmod(input_size, target)
        fits_evenly = input_size // whole < min(1.1 * target, self.write_max_file_size)
        return whole if rest <= self.min_file_size_bytes and (fits_evenly or not rest) else whole + 1


@frozen
class FileGroup:
    """Data files to be rewritten together."""

    paths: tuple[str, ...]


@frozen
class _Candidate:
    path: str
    size: int
    has_many_deletes: bool


def groups_of(planned: PlannedFiles, options: CompactionOptions) -> list[FileGroup]:
    """The groups of a plan's files that are worth rewriting, by partition and path."""
    if not planned.files.num_rows:
        return []
    groups: list[FileGroup] = []
    left = options.max_files_to_rewrite
    for candidates in _by_place(planned, options):
        for packed in _packed(candidates, options):
            if not _is_worth_it(packed, options):
                continue
            if left is not None:
                packed = packed[:left]
                left -= len(packed)
            if packed:
                groups.append(FileGroup(tuple(c.path for c in packed)))
    return groups


def _by_place(planned: PlannedFiles, options: CompactionOptions) -> Iterator[list[_Candidate]]:
    """The files that need rewriting, of one partition after another."""
    parameters = {
        "spec_id": options.output_spec_id,
        "rewrite_all": options.rewrite_all,
        "delete_file_threshold": options.delete_file_threshold,
        "delete_ratio_threshold": options.delete_ratio_threshold,
        "min_size": options.min_file_size_bytes,
        "max_size": options.max_file_size_bytes,
    }
    with ROWS_AT_HAND.connect() as connection:
        duck.register(connection, "planned_files", numbered(planned.files))
        duck.register(connection, "planned_pairs", planned.pairs.to_arrow())
        deletes = numbered(planned.deletes)
        if "referenced_data_file" not in deletes.column_names:
            duck.rows(connection, query("plan/compaction.sql", "no_deletes"))
        else:
            duck.register(connection, "planned_deletes", deletes)
        rows = duck.rows(connection, query("plan/compaction.sql", "candidates"), parameters)
    groups: dict[bytes, list[_Candidate]] = {}
    for path, size, place, has_many_deletes in rows:
        groups.setdefault(bytes(place), []).append(_Candidate(path, size, has_many_deletes))
    yield from groups.values()


def _packed(candidates: Iterable[_Candidate], options: CompactionOptions) -> Iterator[list[_Candidate]]:
    """The files one after another in groups, each until it is full."""
    group: list[_Candidate] = []
    size = 0
    for c in candidates:
        is_full = size + c.size > options.max_file_group_size_bytes or len(group) >= options.max_file_group_input_files
        if group and is_full:
            yield group
            group, size = [], 0
        group.append(c)
        size += c.size
    if group:
        yield group


def _is_worth_it(group: Sequence[_Candidate], options: CompactionOptions) -> bool:
    size = sum(c.size for c in group)
    return (
        options.rewrite_all
        or (len(group) > 1 and (len(group) >= options.min_input_files or size > options.target_file_size_bytes))
        or size > options.max_file_size_bytes
        or any(c.has_many_deletes for c in group)
    )


class RewriteOptions:
    """The reader of options, which knows those that it has read."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self.used: set[str] = set()

    def number(self, key: str, default: int, *, least: int = 1) -> int:
        """A whole number of at least `least`. Raises ValidationError."""
        self.used.add(key)
        if key not in self.options:
            return default
        number = number_in(str(self.options[key]).strip())
        if number is None or number < least:
            raise ValidationError(f"{key} must be a whole number from {least} on, found {self.options[key]!r}")
        return number

    def ratio(self, key: str, default: float) -> float:
        """A number above 0 and at most 1. Raises ValidationError."""
        self.used.add(key)
        try:
            found = float(self.options.get(key, default))
        except (TypeError, ValueError):
            found = 0.0
        if not 0 < found <= 1:
            raise ValidationError(f"{key} must be above 0 and at most 1, found {self.options.get(key)!r}")
        return found

    def boolean(self, key: str, default: bool) -> bool:
        """A truth value. Raises ValidationError."""
        self.used.add(key)
        text = str(self.options.get(key, default)).strip().lower()
        if text not in ("true", "false"):
            raise ValidationError(f"{key} must be true or false, found {self.options[key]!r}")
        return text == "true"

    def check_all_used(self) -> None:
        """Raises ValidationError for options that nobody asked for."""
        if unknown := sorted(self.options.keys() - self.used):
            raise ValidationError(f"unknown options {unknown}; there are {sorted(self.used)}")
