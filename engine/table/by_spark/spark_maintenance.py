"""The maintenance that a table offers by Spark: files are read and written in Spark's tasks, and committed here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from icecore.engine.common.keyword_options import options_of, takes_options
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.timestamps import TimestampLike
from icecore.engine.maintenance.maintenance import Maintenance, OrphanFiles, OrphanOptions
from icecore.engine.maintenance.rewrite_data_files import RewriteResult
from icecore.engine.maintenance.rewrite_strategy import BINPACK, SortTerms
from icecore.engine.maintenance.spark_compaction import SparkGroupWriter
from icecore.engine.maintenance.spark_delete_merge import SparkDeletesWriter
from icecore.engine.spark.files.described_files import SparkDescriber
from icecore.engine.spark.files.listed_files import SparkLister
from icecore.engine.spark.progress import ProgressCallback
from icecore.engine.spark.session import session as running_session
from icecore.engine.table import table_commits
from icecore.engine.table.commit_options import CommitOptions, RewriteCommitOptions, RowChangeOptions, RowOptions
from icecore.engine.table.table_handle import TableHandle
from icecore.engine.table.table_maintenance import compact, merge_deletes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icecore.engine.commit.dry_run import DryRun


class SparkMaintenance:
    """Calls of a table that read or write many files, by Spark, with the options of the table's own.

    `on_progress(done, total)` is called with numbers of tasks from another thread, in classic mode only.
    """

    def __init__(self, table: TableHandle, session: SparkSession | None = None) -> None:
        self._table = table
        self._session = session

    @takes_options(RewriteCommitOptions)
    def rewrite_data_files(
        self,
        row_filter: str | Expression | None = None,
        *,
        strategy: str = BINPACK,
        sort_order: SortTerms | None = None,
        options: Mapping[str, Any] | None = None,
        case_sensitive: bool = True,
        on_progress: ProgressCallback | None = None,
        **rewrite: Unpack[RewriteCommitOptions],
    ) -> RewriteResult:
        """Rewrites data files as `Table.rewrite_data_files` does, which says how, all groups of a commit at once.

        Large groups are sorted as a whole, over all their files. A group from which others deleted rows meanwhile is
        written again without these. Raises ValidationError, MissingFileError, CorruptFileError, StorageError; what
        tasks wrote before an error stays behind as orphan files, and commits that were made before stay.
        """
        return compact(
            self._table,
            row_filter,
            strategy=strategy,
            sort_order=sort_order,
            options=options,
            case_sensitive=case_sensitive,
            writer=SparkGroupWriter(self._running(), on_progress),
            **rewrite,
        )

    @takes_options(RewriteCommitOptions)
    def rewrite_position_delete_files(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        on_progress: ProgressCallback | None = None,
        **rewrite: Unpack[RewriteCommitOptions],
    ) -> RewriteResult:
        """Merges position delete files as `Table.rewrite_position_delete_files` does, which says how.

        Tasks read and write them; where a data file got deletes meanwhile, they are merged again. Raises
        ValidationError, MissingFileError, CorruptFileError, StorageError; what tasks wrote before an error stays behind
        as orphan files, and commits that were made before stay.
        """
        return merge_deletes(
            self._table,
            options=options,
            writer=SparkDeletesWriter(self._running(), on_progress),
            **rewrite,
        )

    @takes_options(RowOptions)
    def add_files(
        self,
        file_paths: Iterable[str],
        *,
        check_duplicate_files: bool = True,
        on_progress: ProgressCallback | None = None,
        **options: Unpack[RowOptions],
    ) -> DryRun | None:
        """Adds existing Parquet files as they are, as `Table.add_files` does; tasks read them for their metrics.

        Raises ValidationError where a file's schema or partition does not fit, or it is in the table already,
        MissingFileError, CorruptFileError.
        """
        with table_commits.transaction(self._table, **options_of(CommitOptions, options)) as transaction:
            transaction._describe = SparkDescriber(self._running(), on_progress)
            transaction.add_files(
                file_paths, check_duplicate_files=check_duplicate_files, **options_of(RowChangeOptions, options)
            )
        return transaction.outcome

    @takes_options(OrphanOptions)
    def remove_orphan_files(
        self,
        older_than: TimestampLike | None = None,
        *,
        on_progress: ProgressCallback | None = None,
        **options: Unpack[OrphanOptions],
    ) -> OrphanFiles:
        """Deletes files in the table's folders that nothing references, as `Maintenance.remove_orphan_files` does.

        Tasks list the folders; which files go is decided here. Raises ValidationError where `gc.enabled` is false,
        CommitConflictError where another engine's commit is not in the log, StorageError, CorruptFileError; no file was
        deleted then.
        """
        table, lister = self._table, SparkLister(self._running(), on_progress)
        maintenance = Maintenance(table._state.stream, table._repository, table._committed, table._actor, lister)
        return maintenance.remove_orphan_files(older_than, **options)

    def _running(self) -> SparkSession:
        session: SparkSession = self._session or running_session()
        return session
