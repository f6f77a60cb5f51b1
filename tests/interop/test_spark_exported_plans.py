"""Plans from a folder, read by Spark without the warehouse's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
COLUMNS = ("id", "label", "day", "_file", "_row_id", "_last_updated_sequence_number")


def test_an_exported_plan_needs_no_log(spark: Any, catalog: icecore.Catalog, warehouse: Path, tmp_path: Path) -> None:
    """Vectors, equality deletes, evolved specs and names, row lineage: all that a scan says is in the folder."""
    properties = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("ns.t", SCHEMA, format_version=3, properties=properties)
    table.append([{"id": i, "name": f"n{i}", "day": None} for i in range(20)])
    table.update_spec().add_field("bucket(2, name)").commit()
    table.update_schema().rename_column("name", "label").commit()
    table.append([{"id": i, "label": f"n{i}", "day": None} for i in range(20, 40)])
    table.delete("id IN (0, 5, 10, 25)")
    table.delete_keys([{"id": 7}, {"id": 27}], ["id"])
    scan = table.scan("label LIKE 'n%' AND id < 30", selected_fields=COLUMNS)
    expected = scan.to_arrow()
    scan.export(tmp_path / "plan")
    catalog.close()
    for file in warehouse.glob("icecore.db*"):
        file.unlink()
    found = icecore.spark.load_plan(spark, tmp_path / "plan").toArrow()
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert expected.num_rows == 24
