"""What if: all can be done in a copy that shares the data, and nothing of it is left."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from core_tables import digests, ids_of, make_table, rows

import icecore
from icecore.engine.cli.main import cli


def test_nothing_touches_the_warehouse(catalog: icecore.Catalog, warehouse: Path, tmp_path: Path) -> None:
    """Rows are deleted, snapshots expired, tables purged and files compacted there, by any call that there is."""
    table = make_table(catalog, format_version=3)
    table.append(rows(1, 2))
    table.append(rows(3))
    make_table(catalog, "u").append(rows(9))
    before, position = digests(warehouse), catalog.position
    there = tmp_path / "there"
    there.mkdir()
    with icecore.what_if(catalog, actor="someone", folder=there) as copy:
        tried = copy.load_table("ns.t")
        tried.delete("id = 1")
        assert ids_of(tried) == [2, 3] and copy.load_table("ns.u").inspect.files().num_rows == 1
        tried.rewrite_data_files(options={"rewrite-all": "true"})
        tried.maintenance.expire_snapshots().older_than(2**50).retain_last(1).commit()
        copy.drop_table("ns.u")
        copy.purge_table("ns.u")
        assert copy.verify().ok and copy.sql("SELECT count(*) AS n FROM data_files").to_pylist() == [{"n": 1}]
        assert copy.log(limit=1)["actor"].to_pylist() == ["someone"]
        assert any(there.iterdir())
    assert not any(there.iterdir())
    assert digests(warehouse) == before and catalog.position == position and catalog.verify().ok
    assert ids_of(table.refresh()) == [1, 2, 3]


def test_commands_are_tried(catalog: icecore.Catalog, warehouse: Path) -> None:
    """One after another in one copy; an error ends them."""
    make_table(catalog).append(rows(1))
    end = catalog.position
    tried = ["undo --actor tester --yes", "show ns.t -o csv", "drop ns.t --yes"]
    found = CliRunner().invoke(cli, ["--warehouse", str(warehouse), "what-if", *tried])
    assert found.exit_code == 0, found.output
    assert "id,name\n" in found.output and "dropped ns.t" in found.output
    unclosed = CliRunner().invoke(cli, ["-w", str(warehouse), "what-if", "ls", "show 'ns.t"])
    assert (unclosed.exit_code, unclosed.stdout) == (2, "")
    assert '"show \'ns.t" is no command: No closing quotation' in unclosed.stderr
    failed = CliRunner().invoke(cli, ["-w", str(warehouse), "what-if", "drop ns.nothing --yes", "drop ns.t --yes"])
    assert failed.exit_code == 1 and "dropped" not in failed.output
    assert catalog.position == end and catalog.table_exists("ns.t")
