"""What one process plans of any ref, whatever it loaded before: the files and rows of a reader that keeps nothing."""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from core_tables import SCHEMA, ids_of, pyiceberg_catalog, rows
from independent_reader import ROW_ID, files_of, rows_of

import icecore
from icecore.projections.segments import segment_merging

STEPS = (
    *("append", "append", "append", "side", "side", "peer", "peer", "delete", "overwrite", "schema", "spec", "branch"),
    *("tag", "rollback", "compact", "manifests", "expire", "reopen", "lose", "forward"),
)
LAYOUTS = [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]


@define
class Warehouse:
    """Two catalogs of ours, each with entries of its own over the same segment files, and PyIceberg beside them."""

    folder: Path
    choice: random.Random
    catalogs: list[icecore.Catalog]
    number: int = 0
    checks: int = 0
    done: list[str] = field(factory=list)

    def table(self) -> icecore.Table:
        return self.choice.choice(self.catalogs).load_table("ns.t")

    def step(self) -> None:
        what = self.choice.choice(STEPS)
        self.number += 1
        self.done.append(what)
        table, number = self.table(), self.number
        refs, current = table.refs(), table.current_snapshot()
        snapshots = [s.snapshot_id for s in table.snapshots()]
        branch = "side" if "side" in refs and self.choice.random() < 0.3 else "main"
        match what:
            case "append":
                table.append(rows(number, number + 100))
            case "side" if "side" in refs:
                table.append(rows(number), branch="side")
            case "peer" if table.format_version < 3:
                peer = pyiceberg_catalog(self.folder)
                peer.load_table("ns.t").append(rows(number))
                peer.close()
            case "delete" if snapshots:
                table.delete(f"id >= {number - 9} AND id <= {number - 7}", branch=branch)
            case "overwrite" if snapshots:
                table.overwrite(rows(number), f"id = {number - 3}", branch=branch)
            case "schema":
                table.update_schema().add_column(f"c{number}", "int").commit()
            case "spec":
                with table.update_spec() as update:
                    names = [f.name for f in table.spec().fields if str(f.transform) != "void"]
                    update.remove_field(names[0]) if names else update.add_field("name", "identity", f"p{number}")
            case "branch" if snapshots:
                manage, chosen = table.manage_snapshots(), self.choice.choice(snapshots)
                (manage.replace_branch if "side" in refs else manage.create_branch)(
                    *(("side", chosen) if "side" in refs else (chosen, "side"))
                ).commit()
            case "tag" if snapshots:
                table.manage_snapshots().create_tag(self.choice.choice(snapshots), f"tag{number}").commit()
            case "rollback" if current:
                line = [s.snapshot_id for s in table.metadata.ancestors(current.snapshot_id)]
                table.manage_snapshots().rollback_to_snapshot(self.choice.choice(line[:3])).commit()
            case "forward" if {"main", "side"} <= refs.keys():
                if table.metadata.is_ancestor(refs["main"].snapshot_id, refs["side"].snapshot_id):
                    table.manage_snapshots().fast_forward("main", "side").commit()
            case "compact" if snapshots:
                table.rewrite_data_files(options={"rewrite-all": "true"}, branch=branch)
            case "manifests" if snapshots:
                table.rewrite_manifests(branch=branch)
            case "expire" if snapshots:
                kept = {r.snapshot_id for r in refs.values()}
                gone = [i for i in snapshots if i not in kept][:2]
                for i in gone:
                    table.maintenance.expire_snapshots().by_id(i).commit()
            case "reopen":
                place = self.choice.randrange(2)
                self.catalogs[place].close()
                self.catalogs[place] = icecore.open(self.folder)
            case "lose" if self.choice.random() < 0.5:
                shutil.rmtree(self.folder / ".icecore" / "segments", ignore_errors=True)
            case _:
                pass

    def check(self, table: icecore.Table, snapshot_id: int) -> None:
        """Plans, counts, rows and now and then explanations of a snapshot are those of files read one after another."""
        location = table.metadata_location
        assert location is not None
        scan = table.scan(snapshot_id=snapshot_id)
        files = files_of(location, snapshot_id)
        assert [t.file.file_path for t in scan.plan_files()] == [path for _, path in files], self.done
        live: list[dict[str, Any]] = rows_of(location, snapshot_id)
        assert ids_of(table, snapshot_id=snapshot_id) == sorted(r["id"] for r in live), self.done
        assert scan.count() == len(live) and scan.aggregate("count(*)").values["count(*)"] == len(live), self.done
        counts = table.scan("id < 40", snapshot_id=snapshot_id).plan().counts
        assert (counts.files_total, counts.manifests_scanned <= counts.manifests_total) == (len(files), True), self.done
        self.checks += 1
        if self.checks % 3 == 0:
            explained = table.scan("id < 40", snapshot_id=snapshot_id).explain().files
            found = zip(*(explained[n].to_pylist() for n in ("manifest_path", "file_path")), strict=True)
            assert sorted(found) == sorted(files), self.done
        if table.format_version >= 3:
            row_ids = table.scan(snapshot_id=snapshot_id, selected_fields=(ROW_ID,)).to_arrow()[ROW_ID].to_pylist()
            assert sorted(row_ids) == sorted(r[ROW_ID] for r in live), self.done

    def check_some(self) -> None:
        table = self.table()
        there = [s.snapshot_id for s in table.snapshots()]
        for snapshot_id in self.choice.sample(there, min(3, len(there)))[:2]:
            self.check(table, snapshot_id)

    def check_all(self) -> None:
        for catalog in self.catalogs:
            table = catalog.load_table("ns.t")
            for snapshot in table.snapshots():
                self.check(table, snapshot.snapshot_id)
            for name, ref in table.refs().items():
                assert table.scan(ref=name).count() == table.scan(snapshot_id=ref.snapshot_id).count(), self.done


@pytest.mark.parametrize(("format_version", "mode"), LAYOUTS)
def test_plans_of_any_ref(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_version: int, mode: str) -> None:
    """Through commits of two engines, branches, rollbacks, compactions, expiries, evolution and lost segments."""
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 3)
    monkeypatch.setattr(segment_merging, "MERGED_AT_ONCE", 2)
    monkeypatch.setattr(segment_merging, "MOST_FILES", 3)
    properties = {"write.delete.mode": mode, "commit.manifest.min-count-to-merge": "6"}
    with warnings.catch_warnings():
        # PyIceberg says that it merges on read nowhere.
        warnings.simplefilter("ignore", UserWarning)
        first = icecore.open(tmp_path)
        first.create_namespace("ns")
        first.create_table("ns.t", SCHEMA, format_version=format_version, properties=properties)
        choice = random.Random(f"{format_version} {mode} 0")
        warehouse = Warehouse(tmp_path, choice, [first, icecore.open(tmp_path)])
        for _ in range(18):
            warehouse.step()
            warehouse.check_some()
        warehouse.check_all()
        for catalog in warehouse.catalogs:
            catalog.close()
