-- rule: summary-totals
-- severity: warning
-- finds: A total in the summary of a table's current snapshot that its files don't come to.
-- mend: What goes by summaries is told something wrong. No commit mends it, as totals are counted on from the ones
--   before; ask the engine that made the snapshot why.
WITH live AS (
    SELECT
        namespace, name,
        count(*) FILTER (content = 'data') AS data_files,
        count(*) FILTER (content <> 'data') AS delete_files,
        coalesce(sum(record_count) FILTER (content = 'data'), 0) AS records,
        coalesce(sum(record_count) FILTER (content = 'position_deletes'), 0) AS position_deletes,
        coalesce(sum(record_count) FILTER (content = 'equality_deletes'), 0) AS equality_deletes
    FROM files
    GROUP BY ALL
),
found AS (
    SELECT
        t.namespace, t.name, t.table_uuid, s.snapshot_id, s.summary,
        unnest([
            {'total': 'total-data-files', 'files': coalesce(l.data_files, 0)},
            {'total': 'total-delete-files', 'files': coalesce(l.delete_files, 0)},
            {'total': 'total-records', 'files': coalesce(l.records, 0)},
            {'total': 'total-position-deletes', 'files': coalesce(l.position_deletes, 0)},
            {'total': 'total-equality-deletes', 'files': coalesce(l.equality_deletes, 0)}
        ], recursive := true)
    FROM tables AS t
    JOIN snapshots AS s ON s.namespace = t.namespace AND s.name = t.name AND s.snapshot_id = t.current_snapshot_id
    LEFT JOIN live AS l ON l.namespace = t.namespace AND l.name = t.name
    ANTI JOIN problems AS p ON p.namespace = t.namespace AND p.name = t.name
)
SELECT
    namespace, name, table_uuid, snapshot_id, total,
    try_cast(summary[total] AS BIGINT) AS said,
    files AS found,
    total AS subject,
    format('the current snapshot says {} = {}, its files come to {}', total, summary[total], files) AS message
FROM found
WHERE try_cast(summary[total] AS BIGINT) <> files
