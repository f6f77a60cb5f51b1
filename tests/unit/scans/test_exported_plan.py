"""Plans in folders of their own: what they hold, what replaces them, and damage to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from core_tables import local

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import CorruptFileError, MissingFileError, ValidationError
from icecore.engine.scan.exported_plan import load_plan

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    made = catalog.create_table("ns.t", SCHEMA, partition_spec=["city"])
    made.append([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"}, {"id": 3, "city": "Rome"}])
    return made


def test_what_a_plan_holds(table: icecore.Table, tmp_path: Path) -> None:
    table.scan("city LIKE 'R%' AND id > 2", selected_fields=("id", "_file"), limit=5).export(tmp_path / "plan")
    plan = load_plan(str(tmp_path / "plan"))
    [task] = plan.tasks
    assert (task.file.partition, task.data_sequence_number) == (("Rome",), 1)
    assert task.residual == table.scan("id > 2").row_filter
    assert (plan.table, plan.limit, plan.snapshot_id) == (("ns", "t"), 5, table.metadata.current_snapshot_id)
    assert [f.name for f in plan.projection.fields] == ["id", "_file"]
    assert plan.metadata.snapshots == () and plan.metadata.specs == table.metadata.specs


def test_a_folder_without_a_name_is_none(table: icecore.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the one that the process is in, as where a variable of a script is empty."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValidationError, match="found no name of one"):
        table.scan().export("")
    assert not list(tmp_path.glob("*.json*"))


def test_a_plan_of_an_empty_table(catalog: icecore.Catalog, tmp_path: Path) -> None:
    catalog.create_table("ns.empty", SCHEMA).scan().export(tmp_path / "plan")
    plan = load_plan(str(tmp_path / "plan"))
    assert (list(plan.tasks), plan.snapshot_id) == ([], None)


def test_deletes_are_written_once(catalog: icecore.Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("ns.d", SCHEMA, properties={"write.delete.mode": "merge-on-read"})
    for start in (0, 10):
        table.append([{"id": i, "city": "Oslo"} for i in range(start, start + 3)])
    table.delete_keys([{"id": 1}, {"id": 11}], ["id"])
    table.scan().export(tmp_path / "plan")
    assert len(json.loads((tmp_path / "plan" / "plan.json").read_text())["delete-files"]) == 1
    first, second = load_plan(str(tmp_path / "plan")).tasks
    assert first.delete_files == second.delete_files != ()


def test_a_new_export_takes_the_place_of_the_old(table: icecore.Table, tmp_path: Path) -> None:
    """The file of tasks that a reader of the last plan may be about to open stays for one export."""
    folder = tmp_path / "plan"
    files = []
    for number in range(3):
        table.append([{"id": 10 + number, "city": "Bern"}])
        table.scan().export(folder)
        files.append(json.loads((folder / "plan.json").read_text())["tasks-file"])
        assert len(load_plan(str(folder)).tasks) == 3 + number
    assert {p.name for p in folder.iterdir()} == {"plan.json", *files[1:]}


def test_a_new_export_deletes_files_of_tasks_alone(table: icecore.Table, tmp_path: Path) -> None:
    folder, other = tmp_path / "plan", tmp_path / "other"
    other.write_text("mine")
    table.scan().export(folder)
    head = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**head, "tasks-file-before": "../other"}))
    table.scan().export(folder)
    assert other.read_text() == "mine"


def test_damage_is_found(table: icecore.Table, tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    with pytest.raises(MissingFileError):
        load_plan(str(folder))
    table.scan().export(folder)
    [tasks] = folder.glob("tasks-*.jsonl")
    whole = tasks.read_bytes()
    for changed in (whole[:-1], whole.replace(b"Rome", b"Nome"), b""):
        tasks.write_bytes(changed)
        with pytest.raises(CorruptFileError, match="are not the ones that were written"):
            load_plan(str(folder))
    tasks.write_bytes(whole)
    head = (folder / "plan.json").read_bytes()
    flips = [
        head[:i] + bytes([head[i] ^ 1]) + head[i + 1 :] for i in range(0, len(head), 7) if head[i : i + 1].isalnum()
    ]
    for changed in (head[:-20], b"{}", head.replace(b'"version": 1', b'"version": 2'), *flips):
        (folder / "plan.json").write_bytes(changed)
        with pytest.raises(CorruptFileError):
            load_plan(str(folder))
    tasks.unlink()
    (folder / "plan.json").write_bytes(head)
    with pytest.raises(MissingFileError):
        load_plan(str(folder))


def test_a_plan_of_files_elsewhere(catalog: icecore.Catalog, table: icecore.Table, tmp_path: Path) -> None:
    """Locations stay as position deletes have them; the mapping leads to the bytes."""
    there = Path(shutil.copytree(local(table.location()), tmp_path / "there"))
    metadata_file = there / "metadata" / local(table.metadata_location).name
    mapping = {table.location(): there.as_uri()}
    copied = catalog.register_table("ns.copied", metadata_file.as_uri(), location_mapping=mapping)
    copied.scan().export(tmp_path / "plan")
    plan = load_plan(str(tmp_path / "plan"))
    for task in plan.tasks:
        assert local(task.file.file_path).is_relative_to(local(table.location()))
        assert local(plan.mapping.resolve(task.file.file_path)).is_relative_to(there)


def test_the_command(table: icecore.Table, warehouse: Path, tmp_path: Path) -> None:
    for more in ([], ["--name", "kept"]):
        folder = tmp_path / f"plan{len(more)}"
        arguments = ["--warehouse", str(warehouse), "plan", "ns.t", "--where", "id = 1", "--export", str(folder)]
        assert CliRunner().invoke(cli, [*arguments, *more]).exit_code == 0
        assert len(load_plan(str(folder)).tasks) == 1
