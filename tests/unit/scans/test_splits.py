"""Splits by Java's rules: where files are cut, what parts weigh, which bin each goes into."""

from __future__ import annotations

import itertools
import random

import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.projections.plan.splits import Splitting, combine, split_tasks, splitting_of, weight


def task(
    name: str, size: int, offsets: tuple[int, ...] | None = None, deletes: tuple[tuple[int, int | None], ...] = ()
) -> FileScanTask:
    """A task of one file; deletes are sizes of their files, and of the part of it that counts."""
    file = ContentFile(DataFileContent.DATA, name, FileFormat.PARQUET, 0, (), 1, size, split_offsets=offsets)
    found = tuple(
        ContentFile(
            DataFileContent.POSITION_DELETES,
            f"{name}-{i}",
            FileFormat.PUFFIN,
            0,
            (),
            1,
            whole,
            content_size_in_bytes=part,
        )
        for i, (whole, part) in enumerate(deletes)
    )
    return FileScanTask(file, found, TRUE, 0, size, 1)


def ranges(tasks: list[FileScanTask]) -> list[tuple[str, int, int]]:
    return [(t.file.file_path, t.start, t.length) for t in tasks]


def test_a_file_is_cut_at_each_offset_and_else_at_the_target() -> None:
    splitting = Splitting(target_size=100)
    cut = ranges(list(split_tasks([task("a", 250, (4, 90, 180)), task("b", 250), task("c", 100)], splitting)))
    assert cut == [
        ("a", 0, 90),
        ("a", 90, 90),
        ("a", 180, 70),
        ("b", 0, 100),
        ("b", 100, 100),
        ("b", 200, 50),
        ("c", 0, 100),
    ]


@pytest.mark.parametrize("offsets", [(4, 4), (90, 4), (4, 250), (-1, 5), ()])
def test_offsets_that_cannot_be_right_are_not_used(offsets: tuple[int, ...]) -> None:
    cut = ranges(list(split_tasks([task("a", 250, offsets)], Splitting(target_size=200))))
    assert cut == [("a", 0, 200), ("a", 200, 50)]


def test_a_task_weighs_its_bytes_and_those_of_its_deletes_or_the_cost_of_opening() -> None:
    """Of a deletion vector only its part of the Puffin file counts."""
    splitting = Splitting(target_size=1000, open_file_cost=10)
    assert weight(task("a", 3), splitting) == 10
    assert weight(task("a", 30), splitting) == 30
    assert weight(task("a", 30, None, ((500, 7), (40, None))), splitting) == 77
    assert weight(task("a", 1, None, ((500, 2), (4, None))), splitting) == 30


def test_ranges_that_follow_each_other_in_a_bin_are_one() -> None:
    splitting = Splitting(target_size=100, open_file_cost=0, lookback=10)
    [one] = combine(split_tasks([task("a", 90, (4, 30, 60))], splitting), splitting)
    assert ranges(list(one.tasks)) == [("a", 0, 90)]
    bins = combine(split_tasks([task("a", 120, (4, 30, 60)), task("b", 40)], splitting), splitting)
    assert [ranges(list(b.tasks)) for b in bins] == [[("a", 0, 60), ("b", 0, 40)], [("a", 60, 60)]]


def test_bins_are_packed_as_java_packs_them() -> None:
    """Cases worked out by hand from Java's BinPacking with the largest bin first."""

    def packed(weights: list[int], target: int, lookback: int) -> list[list[int]]:
        splitting = Splitting(target_size=target, open_file_cost=0, lookback=lookback)
        tasks = [task(f"f{i}", w) for i, w in enumerate(weights)]
        return [[t.length for t in b.tasks] for b in combine(tasks, splitting)]

    assert packed([1, 2, 3, 4, 5], 3, 1) == [[1, 2], [4], [5], [3]]
    assert packed([1, 2, 3, 4, 5], 6, 2) == [[1, 2, 3], [4], [5]]
    assert packed([1, 2, 3, 4, 5], 6, 1) == [[1, 2, 3], [5], [4]]
    assert packed([5, 4, 1, 6], 7, 1) == [[5], [6], [4, 1]]
    assert packed([36, 36, 36, 36, 73, 110, 128], 128, 2) == [[110], [128], [36, 36, 36], [36, 73]]
    assert packed([5, 5, 5], 100, 10) == [[5, 5, 5]]
    assert packed([], 100, 10) == []


@pytest.mark.parametrize("seed", range(40))
def test_packing_equals_a_transcription_of_the_rule(seed: int) -> None:
    """Every task is in one bin, and bins are those of the rule, worked out step by step with plain lists."""
    rng = random.Random(seed)
    splitting = Splitting(rng.choice([10, 50, 100]), rng.choice([0, 1, 7]), rng.choice([1, 2, 5, 20]))
    tasks = [task(f"f{i}", rng.randint(1, 60)) for i in range(rng.randint(0, 40))]
    expected: list[list[str]] = []
    open_bins: list[list[FileScanTask]] = []

    def filled(content: list[FileScanTask]) -> int:
        return sum(max(t.length, splitting.open_file_cost) for t in content)

    for t in tasks:
        fits = [b for b in open_bins if filled([*b, t]) <= splitting.target_size]
        if fits:
            fits[0].append(t)
            continue
        open_bins.append([t])
        if len(open_bins) > splitting.lookback:
            heaviest = max(map(filled, open_bins))
            chosen = next(b for b in open_bins if filled(b) == heaviest)
            open_bins = [b for b in open_bins if b is not chosen]
            expected.append([x.file.file_path for x in chosen])
    expected += [[x.file.file_path for x in b] for b in open_bins]
    assert [[t.file.file_path for t in b.tasks] for b in combine(tasks, splitting)] == expected


def test_properties_are_checked_and_every_row_is_in_one_split(catalog: icecore.Catalog) -> None:
    assert splitting_of({"read.split.open-file-cost": "0"}).open_file_cost == 0
    for key, text in (("target-size", "0"), ("planning-lookback", "x"), ("open-file-cost", "-1"), ("target-size", "²")):
        with pytest.raises(ValidationError):
            splitting_of({f"read.split.{key}": text})
    table = make_table(catalog, properties={"read.split.target-size": "100", "read.split.open-file-cost": "1"})
    for i in range(3):
        table.append(rows(*range(i * 10, i * 10 + 10)))
    plan = table.scan().plan()
    covered: dict[str, list[tuple[int, int]]] = {}
    for split in plan.splits():
        for t in split.tasks:
            covered.setdefault(t.file.file_path, []).append((t.start, t.start + t.length))
    for t in plan.tasks:
        parts = sorted(covered[t.file.file_path])
        assert parts[0][0] == 0 and parts[-1][1] == t.length
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
