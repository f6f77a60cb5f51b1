"""Content files and file scan tasks as JSON. Spec: Appendix C, Content File and File Scan Task."""

from __future__ import annotations

import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scan_task_reader import read_task

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.build import And, EqualTo
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestFile
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform, DayTransform, IdentityTransform
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icecore.projections.stored_plans.scan_task_json import (
    content_file_from_json,
    content_file_to_json,
    scan_task_to_json,
)

# The table, spec and files of Java's tests of its parsers.
SCHEMA = Schema(
    (NestedField(3, "id", IntegerType(), required=True), NestedField(4, "data", StringType(), required=True))
)
SPEC = PartitionSpec((PartitionField((4,), 1000, BucketTransform(16), "data_bucket"),), 0)

JAVA_FILES = (
    '{"spec-id":0,"content":"data","file-path":"/path/to/data-with-stats.parquet","file-format":"parquet",'
    '"partition":[1],"file-size-in-bytes":350,"record-count":10,"column-sizes":{"keys":[3,4],"values":[100,200]},'
    '"value-counts":{"keys":[3,4],"values":[90,180]},"null-value-counts":{"keys":[3,4],"values":[10,20]},'
    '"nan-value-counts":{"keys":[3,4],"values":[0,0]},'
    '"lower-bounds":{"keys":[3,4],"values":["01000000","02000000"]},'
    '"upper-bounds":{"keys":[3,4],"values":["05000000","0A000000"]},'
    '"key-metadata":"00000000000000000000000000000000","split-offsets":[128,256],"sort-order-id":1}',
    '{"spec-id":0,"content":"position-deletes","file-path":"/path/to/delete.puffin","file-format":"puffin",'
    '"partition":[4],"file-size-in-bytes":1234,"record-count":10,'
    '"referenced-data-file":"/path/to/data/file.parquet","content-offset":4,"content-size-in-bytes":40}',
    '{"spec-id":0,"content":"equality-deletes","file-path":"/path/to/data-a2-deletes.parquet",'
    '"file-format":"parquet","partition":[0],"file-size-in-bytes":10,"record-count":1,"equality-ids":[1],'
    '"sort-order-id":0}',
)
JAVA_TASK = (
    '{"task-type":"file-scan-task","schema":{"type":"struct","schema-id":0,"fields":['
    '{"id":3,"name":"id","required":true,"type":"int"},{"id":4,"name":"data","required":true,"type":"string"}]},'
    '"spec":{"spec-id":0,"fields":[{"name":"data_bucket","transform":"bucket[16]","source-id":4,"field-id":1000}]},'
    '"data-file":{"spec-id":0,"content":"DATA","file-path":"/path/to/data-a.parquet","file-format":"PARQUET",'
    '"partition":{"1000":0},"file-size-in-bytes":10,"record-count":1,"sort-order-id":0},"start":0,"length":10,'
    '"delete-files":[{"spec-id":0,"content":"POSITION_DELETES","file-path":"/path/to/data-a-deletes.parquet",'
    '"file-format":"PARQUET","partition":{"1000":0},"file-size-in-bytes":10,"record-count":1}],'
    '"residual-filter":{"type":"eq","term":"id","value":1}}'
)


def parse(obj: Any) -> ContentFile:
    return content_file_from_json(obj, specs={0: SPEC}, schema=SCHEMA)


@pytest.mark.parametrize("text", JAVA_FILES)
def test_what_java_writes_is_read_and_written_again_to_the_same_text(text: str) -> None:
    file = parse(json.loads(text))
    again = content_file_to_json(file, spec=SPEC, schema=SCHEMA, rest=True)
    assert json.dumps(again, separators=(",", ":")) == text
    spelled = content_file_to_json(file, spec=SPEC, schema=SCHEMA)
    assert spelled["content"] == file.content.name
    assert spelled["file-format"] in ("PARQUET", "PUFFIN")
    assert spelled["partition"] == {"1000": file.partition[0]}
    assert parse(spelled) == file


def test_the_values_of_a_file_with_everything() -> None:
    file = parse(json.loads(JAVA_FILES[0]))
    assert (file.content, file.file_format, file.partition) == (DataFileContent.DATA, FileFormat.PARQUET, (1,))
    assert file.upper_bounds == {3: b"\x05\x00\x00\x00", 4: b"\n\x00\x00\x00"}
    assert (file.split_offsets, file.sort_order_id, file.key_metadata) == ((128, 256), 1, bytes(16))
    vector = parse(json.loads(JAVA_FILES[1]))
    assert vector.is_deletion_vector
    assert (vector.content_offset, vector.content_size_in_bytes) == (4, 40)
    assert vector.referenced_data_file == "/path/to/data/file.parquet"
    assert parse(json.loads(JAVA_FILES[2])).equality_ids == (1,)


def test_a_task_is_read_and_written_again() -> None:
    asked = json.loads(JAVA_TASK)
    task = read_task(asked, {0: SPEC}, 5)
    assert task.file.partition == (0,)
    assert [d.content for d in task.delete_files] == [DataFileContent.POSITION_DELETES]
    assert (task.start, task.length, task.data_sequence_number) == (0, 10, 5)
    assert task.residual == bind(EqualTo("id", 1), SCHEMA)
    assert scan_task_to_json(task, specs={0: SPEC}, schema=SCHEMA) == asked


def test_a_global_equality_delete_beside_a_partitioned_file() -> None:
    data = ContentFile(DataFileContent.DATA, "/a", FileFormat.PARQUET, 0, (3,), 1, 10)
    delete = ContentFile(DataFileContent.EQUALITY_DELETES, "/d", FileFormat.PARQUET, 7, (), 1, 10, equality_ids=(3,))
    residual = bind(And(EqualTo("data", "x"), EqualTo("id", 4)), SCHEMA)
    task = FileScanTask(data, (delete,), residual, 4, 6, 9)
    specs = {0: SPEC, 7: PartitionSpec((), 7)}
    obj = scan_task_to_json(task, specs=specs, schema=SCHEMA)
    assert read_task(json.loads(json.dumps(obj)), specs, 9) == task
    with pytest.raises(ValidationError, match="no partition spec 7"):
        scan_task_to_json(task, specs={0: SPEC}, schema=SCHEMA)


TYPES: tuple[tuple[PrimitiveType, Any], ...] = (
    (IntegerType(), -5),
    (DateType(), 19_000),
    (TimeType(), 3_600_000_001),
    (TimestamptzType(), 1_700_000_000_123_456),
    (DoubleType(), -0.0),
    (DoubleType(), math.inf),
    (DoubleType(), -math.inf),
    (DecimalType(9, 2), Decimal("-12.30")),
    (StringType(), 'quo"te NaN'),
    (StringType(), "NaN"),
    (UUIDType(), uuid.UUID(int=7)),
    (FixedType(3), b"\x00\xff\x10"),
    (BinaryType(), b""),
)


@pytest.mark.parametrize("rest", [False, True])
@pytest.mark.parametrize(("iceberg_type", "value"), TYPES, ids=lambda v: str(v))
def test_partition_values_of_every_type_and_null(iceberg_type: PrimitiveType, value: Any, rest: bool) -> None:
    schema = Schema((NestedField(1, "c", iceberg_type), NestedField(2, "t", TimestamptzType())))
    spec = PartitionSpec(
        (
            PartitionField((1,), 1000, IdentityTransform(), "c"),
            PartitionField((2,), 1001, DayTransform(), "t_day"),
        ),
        2,
    )
    for partition in ((value, 5), (None, 5), (value, None), (None, None)):
        file = ContentFile(DataFileContent.DATA, "/a", FileFormat.ORC, 2, partition, 1, 10)
        obj = json.loads(json.dumps(content_file_to_json(file, spec=spec, schema=schema, rest=rest), allow_nan=False))
        again = content_file_from_json(obj, specs={2: spec}, schema=schema)
        assert again == file
        assert repr(again.partition) == repr(file.partition)


@pytest.mark.parametrize("rest", [False, True])
def test_a_partition_value_that_is_not_a_number(rest: bool) -> None:
    schema = Schema((NestedField(1, "c", DoubleType()),))
    spec = PartitionSpec((PartitionField((1,), 1000, IdentityTransform(), "c"),), 0)
    file = ContentFile(DataFileContent.DATA, "/a", FileFormat.AVRO, 0, (math.nan,), 1, 10)
    obj = content_file_to_json(file, spec=spec, schema=schema, rest=rest)
    (value,) = content_file_from_json(obj, specs={0: spec}, schema=schema).partition
    assert math.isnan(value)


counts = st.none() | st.dictionaries(st.integers(1, 100), st.integers(0, 2**63 - 1), max_size=4)
bounds = st.none() | st.dictionaries(st.integers(1, 100), st.binary(max_size=9), max_size=4)
longs = st.none() | st.integers(0, 2**63 - 1)
files = st.builds(
    ContentFile,
    content=st.sampled_from(DataFileContent),
    file_path=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    file_format=st.sampled_from(FileFormat),
    spec_id=st.just(0),
    partition=st.tuples(st.none() | st.integers(0, 15)),
    record_count=st.integers(0, 2**63 - 1),
    file_size_in_bytes=st.integers(0, 2**63 - 1),
    column_sizes=counts,
    value_counts=counts,
    null_value_counts=counts,
    nan_value_counts=counts,
    lower_bounds=bounds,
    upper_bounds=bounds,
    key_metadata=st.none() | st.binary(max_size=9),
    split_offsets=st.none() | st.lists(st.integers(0, 2**40), max_size=3).map(tuple),
    equality_ids=st.none() | st.lists(st.integers(1, 100), max_size=3).map(tuple),
    sort_order_id=st.none() | st.integers(0, 9),
    first_row_id=longs,
    referenced_data_file=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    content_offset=longs,
    content_size_in_bytes=longs,
)


@given(files, st.booleans())
def test_every_file_comes_back(file: ContentFile, rest: bool) -> None:
    obj = content_file_to_json(file, spec=SPEC, schema=SCHEMA, rest=rest)
    assert parse(json.loads(json.dumps(obj))) == file


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content": "invalid-content"}, "invalid-content"),
        ({"file-format": "csv"}, "csv"),
        ({"spec-id": 4}, "no partition spec 4"),
        ({"partition": "invalid"}, "'invalid'"),
        ({"partition": [1, 2]}, "found 2 values"),
        ({"partition": {"1000": 1, "9999": 2}}, "9999"),
        ({"partition": {"1000": "foo"}}, "foo"),
        ({"partition": None}, "None"),
        ({"record-count": None}, "record-count"),
        ({"record-count": "1"}, "record-count"),
        ({"column-sizes": {"keys": [1], "values": []}}, "1 keys and 0 values"),
        ({"column-sizes": [1]}, "column-sizes"),
        ({"value-counts": {"keys": ["1"], "values": [1]}}, "whole number"),
        ({"lower-bounds": {"keys": [1], "values": ["0g"]}}, "hexadecimal"),
        ({"upper-bounds": {"keys": [1], "values": [5]}}, "hexadecimal"),
        ({"key-metadata": 5}, "key-metadata"),
        ({"split-offsets": ["a"]}, "split-offsets"),
        ({"equality-ids": 5}, "equality-ids"),
    ],
)
def test_what_is_no_content_file_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    obj = json.loads(JAVA_FILES[0]) | changes
    with pytest.raises(ValidationError, match=message) as e:
        parse(obj)
    assert "data-with-stats" in str(e.value)


@pytest.mark.parametrize("obj", [None, [], "x", 5, {}, {"file-path": 5}])
def test_what_is_no_object_is_refused(obj: Any) -> None:
    with pytest.raises(ValidationError, match=r"content file"):
        parse(obj)


def test_a_file_of_another_spec_is_not_written() -> None:
    file = ContentFile(DataFileContent.DATA, "/a", FileFormat.PARQUET, 1, (), 1, 10)
    with pytest.raises(ValidationError, match="spec 1 with 0 partition values"):
        content_file_to_json(file, spec=SPEC, schema=SCHEMA)
    assert content_file_to_json(file, spec=PartitionSpec((), 1), schema=SCHEMA)["partition"] == {}


def test_key_metadata_is_kept_and_never_printed() -> None:
    secret = b"secret key material"
    file = ContentFile(DataFileContent.DATA, "/a", FileFormat.PARQUET, 0, (), 1, 10, key_metadata=secret)
    obj = content_file_to_json(file, spec=UNPARTITIONED, schema=SCHEMA)
    assert content_file_from_json(obj, specs={0: UNPARTITIONED}, schema=SCHEMA).key_metadata == secret
    manifest = ManifestFile("/m", 5, 0, key_metadata=secret)
    for text in (repr(file), str(file), repr(manifest), repr(FileScanTask(file, (file,), TRUE, 0, 1, 1))):
        assert "secret" not in text
