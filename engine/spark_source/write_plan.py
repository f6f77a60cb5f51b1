"""A write by Spark as its options ask for it, and the commit that its files become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from icecore.engine.catalog.catalog import Catalog, open_catalog
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.metadata.write_audit_publish import EPOCH_ID, QUERY_ID
from icecore.engine.spark_source.foreach_batch import Batch, check_batch, check_kept
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spark_source.task_files import TaskFiles
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.storage.file_io import Storage
from icecore.engine.table.merged_schema import take_in
from icecore.engine.table.written_files import WrittenFiles, give_up, is_answered

STATIC, DYNAMIC = "static", "dynamic"


@frozen
class WritePlan:
    """A write to a table; `overwrite_mode` is None for an append. With the same key nothing is done twice.

    `batch` is the batch of a stream, None where one that was committed before is passed over without a check.
    """

    warehouse: str
    identifier: Identifier
    overwrite_mode: str | None
    overwrite_filter: str | None
    branch: str
    snapshot_properties: dict[str, str]
    message: str | None
    author: str | None
    idempotency_key: str
    skips_committed: bool = False
    merges_schema: bool = False
    batch: Batch | None = None

    @classmethod
    def of(cls, options: SourceOptions, *, overwrite: bool, idempotency_key: str) -> WritePlan:
        """The plan that the options ask for. Raises ValidationError."""
        mode, row_filter = options.text("overwrite-mode"), options.text("overwrite-filter")
        if mode not in (None, STATIC, DYNAMIC):
            raise ValidationError(f"the option 'overwrite-mode' must be {STATIC} or {DYNAMIC}, found {mode!r}")
        if not overwrite and (mode, row_filter) != (None, None):
            raise ValidationError("the options 'overwrite-mode' and 'overwrite-filter' need mode('overwrite')")
        if mode == DYNAMIC and row_filter is not None:
            raise ValidationError("what a dynamic overwrite replaces is told by the rows, not by 'overwrite-filter'")
        parse_filter(row_filter)
        return cls(
            options.warehouse,
            options.identifier,
            (mode or STATIC) if overwrite else None,
            row_filter,
            options.text("branch") or MAIN_BRANCH,
            _snapshot_properties(options),
            options.text("message"),
            options.text("author"),
            idempotency_key,
            options.flag("skip-committed-batches"),
            options.flag("merge-schema"),
        )

    def opened(self) -> Catalog:
        """The catalog, to be closed. Raises StorageError."""
        return open_catalog(self.warehouse, create=False)

    def is_done(self) -> bool:
        """Whether a commit with the key was made."""
        with self.opened() as catalog:
            return is_answered(catalog._warehouse.repository, self.idempotency_key)

    def commit(self, files: tuple[ContentFile, ...], of: TaskFiles) -> None:
        """Commits the files that `of` wrote, once, to the table that they were written for.

        Raises CommitConflictError, also where another table has the name, ValidationError, also where a batch comes
        again with other rows, and NoSuchTableError.
        """
        written = WrittenFiles(files, of.table_uuid, of.schema)
        options: dict[str, Any] = {"branch": self.branch, "snapshot_properties": self.snapshot_properties or None}
        with self.opened() as catalog:
            table = catalog.load_table(self.identifier)
            with table.transaction(
                message=self.message, author=self.author, idempotency_key=self.idempotency_key
            ) as transaction:
                if self.batch is not None:
                    check_kept(transaction, self.batch)
                if self.merges_schema:
                    take_in(transaction, of.struct, case_sensitive=False)
                match self.overwrite_mode:
                    case None:
                        if self.batch is not None:
                            check_batch(transaction, lambda: sum(f.record_count for f in files), self.batch)
                        transaction.append(written, **options)
                    case "static":
                        transaction.overwrite(written, self.overwrite_filter, **options)
                    case _:
                        transaction.dynamic_partition_overwrite(written, **options)

    def abort(self, files: tuple[ContentFile, ...], storage: Storage) -> None:
        """Deletes the files, unless they are committed: Spark may have given up after the commit."""
        if files:
            with self.opened() as catalog:
                give_up(catalog._warehouse.repository, files, self.idempotency_key, storage)

    def staged_by(self, properties: Mapping[str, str]) -> WritePlan:
        """The plan with snapshot properties of a session, except those that its options set."""
        return evolve(self, snapshot_properties={**properties, **self.snapshot_properties})

    def of_batch(self, query_id: str, batch_id: int, table_uuid: str | None) -> WritePlan:
        """The plan of one batch of a stream, the same one when the batch comes again."""
        properties = {QUERY_ID: query_id, EPOCH_ID: str(batch_id), **self.snapshot_properties}
        batch = Batch("writeStream", table_uuid, query_id, batch_id, self.branch)
        checked = None if self.skips_committed else batch
        return evolve(self, snapshot_properties=properties, idempotency_key=batch.key, batch=checked)


def _snapshot_properties(options: SourceOptions) -> dict[str, str]:
    """The option `snapshot-properties`, and Iceberg's `snapshot-property.<name>`, whose names come in lower case."""
    named = {k.removeprefix(PREFIX): v for k, v in options.given.items() if k.startswith(PREFIX)}
    return named | options.text_map("snapshot-properties")


PREFIX = "snapshot-property."
