"""Files that lie somewhere already: one is taken in once, however it is spelled (G4, M6)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.errors import ValidationError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "there before.parquet"
    pq.write_table(rows(1, 2), path)
    return path


def spelled(path: Path) -> list[str]:
    return [str(path), f"file:{path}", f"file://{path}", f"{path.parent}/../{path.parent.name}/{path.name}"]


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(4))
def test_no_other_spelling_takes_a_file_in_again(catalog: icecore.Catalog, file: Path, first: int, second: int) -> None:
    """Its rows would be there twice."""
    table = make_table(catalog)
    table.add_files([spelled(file)[first]])
    with pytest.raises(ValidationError, match="in the table already"):
        table.add_files([spelled(file)[second]])
    with pytest.raises(ValidationError, match="given twice"):
        table.add_files([spelled(file)[first], spelled(file)[second]], check_duplicate_files=False)
    assert ids_of(table) == [1, 2]


def test_a_relative_path_is_kept_whole(
    catalog: icecore.Catalog, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is read from any folder; a path alone is one file."""
    table = make_table(catalog)
    monkeypatch.chdir(file.parent)
    table.add_files(file.name)
    monkeypatch.chdir(tmp_path.parent)
    assert [t.file.file_path for t in table.scan().plan_files()] == [f"file://{file}"]
    assert ids_of(table) == [1, 2]
    assert catalog.verify().ok


def test_a_file_of_a_mapped_table_is_known_by_where_it_lies(
    catalog: icecore.Catalog, tmp_path: Path, warehouse: Path
) -> None:
    """Both by the location that the table names and by the folder where its files lie now."""
    other = make_table(catalog, "other")
    other.append(rows(1))
    [task] = other.scan().plan_files()
    folder = other.location()
    # The same metadata under a location that is elsewhere.
    moved = Path(str(other.metadata_location).removeprefix("file://"))
    text = moved.read_text()
    copied = tmp_path / "v1.metadata.json"
    copied.write_text(text.replace(other.metadata.table_uuid or "", "9c12d441-03fe-4693-9a96-a0705ddf69c1"))
    lake = tmp_path / "linked"
    lake.symlink_to(folder.removeprefix("file://"))
    adopted = catalog.register_table("ns.adopted", str(copied), location_mapping={folder: str(lake)})
    name = task.file.file_path.removeprefix(folder)
    for path in (f"{folder}{name}", f"{lake}{name}", f"file://{lake}{name}"):
        with pytest.raises(ValidationError, match="in the table already"):
            adopted.add_files([path])


def test_a_branch_that_is_not_there_is_made_from_main(catalog: icecore.Catalog, file: Path) -> None:
    """As by all commits of rows; a file of main is in it too."""
    table = make_table(catalog)
    table.append(rows(9))
    table.add_files([str(file)], branch="new")
    assert ids_of(table) == [9] and ids_of(table, ref="new") == [1, 2, 9]
    table.add_files([str(file)])
    with pytest.raises(ValidationError, match="in the table already"):
        table.add_files([str(file)], branch="newer")


def test_a_file_that_came_meanwhile_is_not_added_again(catalog: icecore.Catalog, file: Path) -> None:
    """Between a call and its commit, by another handle; the file is left where it is."""
    table = make_table(catalog)
    late = table.transaction()
    late.add_files([str(file)])
    with icecore.open(catalog.path) as other:
        other.load_table("ns.t").append(rows(9))
        other.load_table("ns.t").add_files([f"file:{file}"])
    with pytest.raises(ValidationError, match="in the table already"):
        late.commit()
    assert ids_of(table.refresh()) == [1, 2, 9] and file.exists()


@pytest.mark.parametrize("branch", ["main", "new"])
def test_what_came_meanwhile_is_no_hindrance_else(catalog: icecore.Catalog, file: Path, branch: str) -> None:
    table = make_table(catalog)
    table.append(rows(8))
    late = table.transaction()
    late.append(rows(7), branch=branch)
    late.add_files([str(file)], branch=branch)
    table.append(rows(9))
    late.commit()
    assert ids_of(table.refresh(), ref=branch) == [1, 2, 7, 8, 9]


def test_a_new_branch_is_made_from_what_main_is_by_then(catalog: icecore.Catalog, file: Path) -> None:
    table = make_table(catalog)
    table.append(rows(9))
    late = table.transaction()
    late.add_files([str(file)], branch="new")
    table.add_files([str(file)])
    with pytest.raises(ValidationError, match="in the table already"):
        late.commit()
    assert "new" not in table.refresh().refs()


def test_a_transaction_adds_a_file_once(catalog: icecore.Catalog, file: Path) -> None:
    table = make_table(catalog)
    with table.transaction() as changes:
        changes.add_files([str(file)])
        with pytest.raises(ValidationError, match="given twice"):
            changes.add_files([f"file:{file}"])
    assert ids_of(table.refresh()) == [1, 2]


def test_a_call_that_comes_twice_adds_its_files_once(catalog: icecore.Catalog, file: Path) -> None:
    """By its key, also where both came at once."""
    table = make_table(catalog)
    late = table.transaction(idempotency_key="once")
    late.add_files([str(file)])
    for _ in range(2):
        table.add_files([str(file)], idempotency_key="once")
    late.commit()
    assert ids_of(table.refresh()) == [1, 2]


def with_ids(path: Path, columns: dict[str, tuple[int | None, list[int | str]]]) -> str:
    """A Parquet file whose columns have field ids."""
    fields = [
        pa.field(n, pa.array(v).type, metadata=None if i is None else {"PARQUET:field_id": str(i)})
        for n, (i, v) in columns.items()
    ]
    arrays = [pa.array(v).cast(f.type) for f, (_, v) in zip(fields, columns.values(), strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), path)
    return str(path)


def test_ids_say_which_column_it_is_where_names_were_swapped(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """The name mapping knows both names of both columns by then."""
    table = catalog.create_table("ns.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    table.add_files([with_ids(tmp_path / "old.parquet", {"a": (1, [10]), "b": (2, [20])})])
    table.update_schema().rename_column("a", "b").rename_column("b", "a").commit()
    table.add_files([with_ids(tmp_path / "new.parquet", {"b": (1, [11]), "a": (2, [21])})])
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == [{"b": 10, "a": 20}, {"b": 11, "a": 21}]


@pytest.mark.parametrize("ids", [(2, 1), (7, 2), (None, 2)])
def test_ids_that_the_table_did_not_give_out_are_refused(
    catalog: icecore.Catalog, tmp_path: Path, ids: tuple[int | None, int]
) -> None:
    """They were another table's: read by them, one column would be another, or empty."""
    table = catalog.create_table("ns.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    path = with_ids(tmp_path / "theirs.parquet", {"a": (ids[0], [10]), "b": (ids[1], [20])})
    with pytest.raises(ValidationError, match=f"column 'a' has the field id {ids[0]}, and the table's has 1"):
        table.add_files([path])


def test_a_branch_that_a_transaction_moves_back_may_have_the_file_again(catalog: icecore.Catalog, file: Path) -> None:
    table = make_table(catalog)
    table.append(rows(9))
    first = table.current_snapshot()
    assert first is not None
    table.add_files([str(file)])
    with table.transaction() as transaction:
        transaction.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
        transaction.add_files([str(file)])
    assert ids_of(table.refresh()) == [1, 2, 9]


def test_a_key_is_answered_though_the_file_is_gone(catalog: icecore.Catalog, file: Path) -> None:
    """The call is sent again where its answer was lost."""
    make_table(catalog).add_files([str(file)], idempotency_key="k")
    file.unlink()
    table = catalog.load_table("ns.t")
    table.add_files([str(file)], idempotency_key="k")
    assert len(table.snapshots()) == 1


def test_nulls_of_a_required_field_are_refused(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """A filter takes it that there are none: `id IS NULL` plans no file."""
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", inner)])
    table = catalog.create_table("ns.t", schema)
    found = [({"id": [1, None], "s": [None, {"x": 1}]}, "'id'"), ({"id": [1, 2], "s": [None, {"x": None}]}, r"'s\.x'")]
    for values, name in found:
        given = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
        pq.write_table(pa.table(values, schema=given), tmp_path / "nulls.parquet")
        with pytest.raises(ValidationError, match=rf"nulls\.parquet: column {name} is required, found 1 nulls"):
            table.add_files([str(tmp_path / "nulls.parquet")])
    pq.write_table(pa.table({"id": [1, 2], "s": [None, {"x": 1}]}, schema=given), tmp_path / "whole.parquet")
    table.add_files([str(tmp_path / "whole.parquet")])
    assert ids_of(table.refresh()) == [1, 2]


def test_columns_that_another_commit_renamed_and_added_meanwhile_are_mapped(
    catalog: icecore.Catalog, file: Path, tmp_path: Path
) -> None:
    """The files have the old name; later ones may have the new column."""
    table, other = make_table(catalog), catalog.load_table("ns.t")
    with table.transaction() as transaction:
        transaction.add_files([str(file)])
        other.update_schema().rename_column("name", "title").add_column("more", "string").commit()
    pq.write_table(rows(3).append_column("more", [["new"]]), tmp_path / "later.parquet")
    table.add_files([str(tmp_path / "later.parquet")])
    found = table.scan().to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3], "title": ["n1", "n2", "n3"], "more": [None, None, "new"]}
