"""A reader of file scan tasks as clients read their JSON. Spec: Appendix C, File Scan Task."""

from __future__ import annotations

from typing import Any

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.bind import bind
from icecore.engine.expression.json import expression_json
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.projections.stored_plans.scan_task_json import content_file_from_json


def read_task(obj: dict[str, Any], specs: dict[int, PartitionSpec], data_sequence_number: int) -> FileScanTask:
    """The file scan task of a JSON object, which does not hold the data file's sequence number."""
    schema = Schema.from_dict(obj["schema"])

    def file(content_file: Any) -> ContentFile:
        return content_file_from_json(content_file, specs=specs, schema=schema)

    assert obj.get("task-type", "file-scan-task") == "file-scan-task"
    assert PartitionSpec.from_dict(obj["spec"]) == specs[obj["data-file"]["spec-id"]]
    residual = expression_json.from_json(obj["residual-filter"], schema)
    return FileScanTask(
        file(obj["data-file"]),
        tuple(map(file, obj["delete-files"])),
        bind(residual, schema),
        obj["start"],
        obj["length"],
        data_sequence_number,
    )
