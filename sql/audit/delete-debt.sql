-- rule: delete-debt
-- severity: warning
-- finds: A table of whose rows so many are deleted by delete files or vectors that each scan pays for them.
-- mend: table.rewrite_data_files(options={"delete-ratio-threshold": 0.2}) writes the rows that are left.
-- option: delete_percent = 20
WITH counted AS (
    SELECT
        namespace, name, table_uuid,
        coalesce(sum(record_count) FILTER (content = 'data'), 0) AS records,
        coalesce(sum(record_count) FILTER (content <> 'data'), 0) AS deletes,
        count(*) FILTER (content <> 'data') AS delete_files
    FROM files
    GROUP BY ALL
)
SELECT
    c.namespace, c.name, c.table_uuid,
    c.records::BIGINT AS records, c.deletes::BIGINT AS deletes, c.delete_files,
    'deletes' AS subject,
    format('deletes: {} of {} rows; delete files: {}', c.deletes, c.records, c.delete_files) AS message
FROM counted AS c
JOIN limits AS l ON l.namespace = c.namespace AND l.name = c.name
WHERE c.deletes * 100 > c.records * l.delete_percent
