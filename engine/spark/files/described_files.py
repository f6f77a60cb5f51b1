"""Descriptions of files that were written elsewhere, made in Spark's tasks."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.write.describe_files import describe_files
from icecore.engine.spark.progress import ProgressCallback, reporting
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import Batches, chunked, mapped
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage

_DESCRIBED = T.StructType([T.StructField("described", T.BinaryType())])
_DESCRIBED_ARROW = pa.schema([pa.field("described", pa.binary())])


@frozen
class SparkDescriber:
    """`describe_files` by Spark's tasks, which read the files; `on_progress` is called as `reporting` says."""

    session: SparkSession
    on_progress: ProgressCallback | None = None

    def __call__(
        self,
        file_paths: Sequence[str],
        /,
        *,
        schema: Schema,
        spec: PartitionSpec,
        storage: Storage,
        properties: Mapping[str, str],
        name_mapping: NameMapping,
    ) -> list[ContentFile]:
        """A description of each file. Raises MissingFileError, CorruptFileError, ValidationError."""
        given = dict(properties)

        def describe(paths: list[str]) -> Batches:
            made = describe_files(
                paths, schema=schema, spec=spec, storage=storage, properties=given, name_mapping=name_mapping
            )
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(f) for f in made])], schema=_DESCRIBED_ARROW)

        if not file_paths:
            return []
        frame = mapped(self.session, chunked(self.session, file_paths, per_chunk=1), describe, _DESCRIBED)
        with (
            translated_spark_errors(),
            reporting(self.session, self.on_progress, f"read {len(file_paths)} files to add"),
        ):
            found: list[ContentFile] = [pickle.loads(row.described) for row in frame.collect()]
        place = {path: i for i, path in enumerate(file_paths)}
        return sorted(found, key=lambda f: place[f.file_path])
