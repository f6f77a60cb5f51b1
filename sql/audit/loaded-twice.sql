-- rule: loaded-twice
-- severity: warning
-- finds: Commits to a table whose files are alike in all metrics: it seems that the same rows came to it more than once.
-- mend: Where that was a mistake, catalog.revert() of a position takes its rows out again. A load that is given an
--   idempotency_key is made once.
WITH added AS (
    SELECT
        namespace, name, table_uuid, snapshot_id,
        max(sequence_number) AS sequence_number,
        count(*) AS files,
        sum(record_count)::BIGINT AS records,
        list_sort(list(hash(
            spec_id, partition, record_count, column_sizes, value_counts, null_value_counts, nan_value_counts,
            lower_bounds, upper_bounds
        ))) AS metrics
    FROM files
    WHERE content = 'data'
    GROUP BY namespace, name, table_uuid, snapshot_id
    -- Where each column holds one value, rows of another day may be the same.
    HAVING bool_or(lower_bounds IS DISTINCT FROM upper_bounds)
),
brought AS (
    SELECT
        table_uuid, snapshot_id, position,
        -- By a registration, say, come many; a revert of its position is none of one of them.
        CASE WHEN count(*) OVER (PARTITION BY table_uuid, position) = 1
            THEN concat('position ', position) ELSE concat('snapshot ', snapshot_id)
        END AS commit
    FROM commits
),
alike AS (
    SELECT
        a.namespace, a.name, a.table_uuid, a.files, a.records,
        count(*) AS times,
        list(coalesce(b.commit, concat('snapshot ', a.snapshot_id)) ORDER BY b.position NULLS FIRST, a.sequence_number)
            AS commits
    FROM added AS a
    LEFT JOIN brought AS b ON b.table_uuid = a.table_uuid AND b.snapshot_id = a.snapshot_id
    GROUP BY a.namespace, a.name, a.table_uuid, a.files, a.records, a.metrics
    HAVING count(*) > 1
)
SELECT
    namespace, name, table_uuid, files, records, times, commits,
    commits[1] AS subject,
    format(
        '{} commits added {} rows each in files that are alike in all metrics: {}{}',
        times, records, array_to_string(commits[:4], ', '), CASE WHEN times > 4 THEN ' and so on' ELSE '' END
    ) AS message
FROM alike
