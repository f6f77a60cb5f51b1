"""Spark Connect: what is written and read is the same as in classic mode, by public API alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

here, folder = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(here))
spark = SparkSession.builder.getOrCreate()
assert "connect" in type(spark).__module__

from spark_tables import (
    STORAGE, deletion_vector, equality_deletes, hidden_copy, metadata_of, position_deletes, schema_of, spec_of, tasks_of
)
from icecore.engine.errors import ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spark.read.scan_to_spark import read_tasks
from icecore.engine.spark.spark_write import write_frame_files
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import LongType, NestedField, StringType, TimestamptzType, UUIDType
from icecore.engine.data.read.column_resolution import FILE_ID
from icecore.engine.spec.schema import Schema

old = schema_of((1, "id", LongType()), (2, "name", StringType()), (3, "u", UUIDType()), (4, "ts", TimestamptzType()))
new = Schema((*(NestedField(f.field_id, "n2" if f.name == "name" else f.name, f.field_type) for f in old.fields),
              NestedField(5, "added", LongType(), initial_default=42)), 1)
spec = spec_of((4, "year", "y"), (2, "bucket[2]", "b"))
order = SortOrder((SortField((1,), parse_transform("identity")),), 1)
day = "timestamp_micros(id * 86400000000) AS ts"
df = spark.sql(f"SELECT id, concat('n', id) AS name, uuid() AS u, {day} FROM range(1000)")


def write(frame, prefix):
    return write_frame_files(frame, schema=old, spec=spec, location=str(folder), storage=STORAGE, properties={},
                            file_prefix=prefix, sort_order=order)


files = write(df, "one")
assert sum(f.record_count for f in files) == 1000 and len(files) == 6
first, second, *rest = files
keys = equality_deletes(folder / "e", schema_of((2, "name", StringType())), {"name": ["n0", "n1", "n2", "n3"]})
tasks = [
    *tasks_of([first], [position_deletes(folder / "d", [(first.file_path, 9)]), keys]),
    *tasks_of([second], [deletion_vector(folder / "d", second.file_path, [9]), keys]),
    *tasks_of([*rest[:-1], hidden_copy(rest[-1])]),
]
wanted = Schema((*new.fields, NestedField(FILE_ID, "_file", StringType())))
frame = read_tasks(spark, tasks, projection=wanted, metadata=metadata_of(old, new, spec=spec), storage=STORAGE,
                   filter=bind(parse_filter("bucket(2, n2) IN (0, 1) AND added = 42"), new))
rows = frame.collect()
assert len(rows) == 1000 - 2 - 4, len(rows)
assert {r._file for r in rows} == {t.file.file_path for t in tasks}
assert all(r.n2 == f"n{r.id}" and r.added == 42 and len(r.u) == 36 for r in rows)
try:
    write(spark.sql("SELECT 'zz' AS u"), "two")
except ValidationError as e:
    assert str(e).endswith("'zz' is not a uuid"), e
else:
    raise SystemExit("a bad uuid was written")


import icecore
import pyarrow as pa

catalog = icecore.open(folder / "warehouse")
catalog.create_namespace("ns")
table = catalog.create_table("ns.t", old)
(folder / "in").mkdir()
(folder / "in" / "1.json").write_text('{"id": 1}\\n{"id": 2}')
stream = spark.readStream.schema("id bigint").json(str(folder / "in"))
writer = stream.writeStream.foreachBatch(icecore.spark.foreach_batch(table, query="events"))
query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
query.awaitTermination()
assert table.refresh().scan().to_arrow()["id"].to_pylist() == [1, 2]

table.append([{"id": 3}])
table.delete_keys(pa.table({"id": [2]}), ["id"])
scan = table.scan("id > 1")
assert [r.id for r in scan.planned_by(spark).to_spark(spark).collect()] == [3]
planned = scan.plan().to_arrow()["file_path"].to_pylist()
assert sorted(r.file_path for r in scan.plan_frame(spark).collect()) == sorted(planned)
print("done")
"""


def test_write_and_read_over_connect(over_connect: Callable[..., None], tmp_path: Path) -> None:
    over_connect(SCRIPT, Path(__file__).parent, tmp_path)
