"""A plan in a folder of its own: all that another application needs to read a scan's rows, and nothing of the log.

`plan.json` has the table's schemas, specs and properties, the columns, the filter and the delete files, and the name,
size and SHA-256 of a file of tasks, and a SHA-256 of its own. The file of tasks has a line for each data file, with the
keys of a REST catalog's file scan task (`data-file`, `delete-file-references`) and what these leave out. A new export
puts its own file of tasks beside the old one before it replaces `plan.json`, so a reader gets one plan or the other;
the file before is kept for readers that have just begun.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from attrs import evolve, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.json_reader import get, get_list, loads
from icecore.engine.common.location import LocationMapping
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import CorruptFileError, MissingFileError, ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.json.stored_expression import from_kept, to_kept
from icecore.engine.expression.nodes import Expression
from icecore.engine.foreign.register import parse_metadata_file
from icecore.engine.spec.content_file import ContentFile, without_metrics
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage
from icecore.projections.stored_plans.scan_task_json import (
    content_file_from_json,
    content_file_to_json,
    with_partition_sources,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN_FILE = "plan.json"
_VERSION = 1
_DIGEST = "sha256"
_TASKS_FILE = re.compile(r"tasks-[0-9a-f-]{36}\.jsonl")


@frozen
class ExportedPlan:
    """The files of a scan, and what is needed to read the rows that it selects.

    `metadata` is the table's without snapshots. `mapping` maps the locations in metadata to where the files are.
    """

    table: Identifier
    snapshot_id: int | None
    tasks: Sequence[FileScanTask]
    schema: Schema
    projection: Schema
    row_filter: Expression
    limit: int | None
    metadata: TableMetadata
    mapping: LocationMapping

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark DataFrame, read by Spark from exactly the planned files.

        Without a session the active one reads; raises ValidationError where there is none.
        """
        from icecore.engine.spark.read.scan_to_spark import read_tasks
        from icecore.engine.spark.session import given_or_active

        frame = read_tasks(
            given_or_active(session),
            self.tasks,
            projection=self.projection,
            metadata=self.metadata,
            storage=Storage(self.mapping),
            filter=self.row_filter,
        )
        return frame if self.limit is None else frame.limit(self.limit)


def export_plan(plan: ExportedPlan, folder: str) -> None:
    """Writes the plan to a folder, in place of the one that is there.

    Raises ExpressionError for a filter that can't be written down, StorageError where the folder can't be written to,
    ValidationError for an empty name, which would be the folder that the process is in.
    """
    if not folder:
        raise ValidationError("a plan is exported to a folder of its own, found no name of one")
    storage = Storage()
    before = _head(storage, folder)
    sources = with_partition_sources(plan.schema, plan.metadata)
    deletes: dict[tuple[str, int | None], tuple[int, ContentFile]] = {}
    residuals: dict[Expression, int] = {}

    def to_json(file: ContentFile) -> dict[str, Any]:
        return content_file_to_json(
            without_metrics(file), spec=plan.metadata.specs[file.spec_id], schema=sources, rest=True
        )

    def line(task: FileScanTask) -> bytes:
        task_json = {
            "data-file": to_json(task.file),
            "delete-file-references": [deletes[d.file_path, d.content_offset][0] for d in task.delete_files],
            "residual": residuals.setdefault(task.residual, len(residuals)),
            "start": task.start,
            "length": task.length,
            "data-sequence-number": task.data_sequence_number,
        }
        return orjson.dumps(task_json, option=orjson.OPT_APPEND_NEWLINE)

    for d in (d for task in plan.tasks for d in task.delete_files):
        # Two deletion vectors may lie in one file.
        deletes.setdefault((d.file_path, d.content_offset), (len(deletes), d))
    data = b"".join(map(line, plan.tasks))
    tasks_file = f"tasks-{uuid.uuid4()}.jsonl"
    head = {
        "version": _VERSION,
        "table": list(plan.table),
        "snapshot-id": plan.snapshot_id,
        "schema": plan.schema.to_dict(),
        "projection": plan.projection.to_dict(),
        "filter": to_kept(plan.row_filter, plan.schema),
        "limit": plan.limit,
        "metadata": orjson.loads(_without_history(plan.metadata).to_json()),
        "location-mapping": plan.mapping.to_dict(),
        "tasks-file": tasks_file,
        "tasks-size": len(data),
        "tasks-sha256": hashlib.sha256(data).hexdigest(),
        "tasks-file-before": before.get("tasks-file"),
        "delete-files": [to_json(d) for _, d in deletes.values()],
        "residuals": [to_kept(r, plan.schema) for r in residuals],
    }
    storage.create(_inside(folder, tasks_file), data)
    head |= {_DIGEST: _digest(head)}
    storage.write_atomic(_inside(folder, PLAN_FILE), orjson.dumps(head, option=orjson.OPT_INDENT_2))
    outdated = before.get("tasks-file-before")
    if isinstance(outdated, str) and _TASKS_FILE.fullmatch(outdated):
        with contextlib.suppress(MissingFileError):
            storage.delete(_inside(folder, outdated))


def load_plan(folder: str) -> ExportedPlan:
    """The plan that was exported to a folder.

    Raises MissingFileError where there is none, CorruptFileError where it is not what was written.
    """
    storage = Storage()
    location = _inside(folder, PLAN_FILE)
    try:
        return _read_plan(storage, folder, loads(storage.read_bytes(location), location), location)
    except ValidationError as e:
        raise CorruptFileError(f"{location} is no exported plan: {e}") from e


def _read_plan(storage: Storage, folder: str, head: Mapping[str, Any], where: str) -> ExportedPlan:
    if (version := get(head, "version", int, where)) != _VERSION:
        raise ValidationError(f"its version is {version}; version {_VERSION} can be read")
    if _digest(head) != head.get(_DIGEST):
        raise ValidationError("it is not as it was written")
    schema = Schema.from_dict(get(head, "schema", dict, where))
    metadata = parse_metadata_file(orjson.dumps(get(head, "metadata", dict, where)), where)
    lines = _tasks_file(storage, folder, head, where).splitlines()
    return ExportedPlan(
        tuple(get_list(head, "table", where)),
        get(head, "snapshot-id", int, where, None),
        _tasks(lines, head, schema, metadata, where),
        schema,
        Schema.from_dict(get(head, "projection", dict, where)),
        bind(from_kept(head.get("filter"), schema), schema),
        get(head, "limit", int, where, None),
        metadata,
        LocationMapping.of(get(head, "location-mapping", dict, where)),
    )


def _tasks_file(storage: Storage, folder: str, head: Mapping[str, Any], where: str) -> bytes:
    location = _inside(folder, get(head, "tasks-file", str, where))
    data = storage.read_bytes(location)
    if len(data) != head.get("tasks-size") or hashlib.sha256(data).hexdigest() != head.get("tasks-sha256"):
        raise CorruptFileError(f"{location}: its {len(data)} bytes are not the ones that were written")
    return data


def _tasks(
    lines: Sequence[bytes], head: Mapping[str, Any], schema: Schema, metadata: TableMetadata, where: str
) -> list[FileScanTask]:
    sources = with_partition_sources(schema, metadata)

    def content_file(obj: Any) -> ContentFile:
        return content_file_from_json(obj, specs=metadata.specs, schema=sources)

    deletes = [content_file(d) for d in get_list(head, "delete-files", where)]
    residuals = [bind(from_kept(r, schema), schema) for r in get_list(head, "residuals", where)]
    return [
        FileScanTask(
            content_file(get(obj, "data-file", dict, where)),
            tuple(deletes[i] for i in get_list(obj, "delete-file-references", where)),
            residuals[get(obj, "residual", int, where)],
            get(obj, "start", int, where),
            get(obj, "length", int, where),
            get(obj, "data-sequence-number", int, where),
        )
        for obj in (loads(line, where) for line in lines)
    ]


def _digest(head: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in head.items() if key != _DIGEST}
    return hashlib.sha256(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _head(storage: Storage, folder: str) -> Mapping[str, Any]:
    """The plan that is there; empty where there is none that can be read."""
    try:
        return loads(storage.read_bytes(_inside(folder, PLAN_FILE)), PLAN_FILE)
    except (MissingFileError, ValidationError):
        return {}


def _without_history(metadata: TableMetadata) -> TableMetadata:
    return evolve(
        metadata,
        current_snapshot_id=None,
        snapshots=(),
        snapshot_log=(),
        metadata_log=(),
        refs={},
        statistics=(),
        partition_statistics=(),
    )


def _inside(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
