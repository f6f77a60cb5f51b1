-- rule: row-ids
-- severity: error
-- finds: Data files whose row ids belong to another live file too, or to rows that are still to be written.
-- mend: The history of rows can't be told by such ids. Write the files anew with the engine that gave them out.
WITH ranges AS (
    SELECT
        namespace, name, table_uuid, file_path, first_row_id,
        first_row_id + record_count AS end_row_id,
        arg_max(file_path, first_row_id + record_count) OVER earlier AS file_before,
        max(first_row_id + record_count) OVER earlier AS end_before
    FROM files
    WHERE content = 'data' AND first_row_id IS NOT NULL
    WINDOW earlier AS (
        PARTITION BY namespace, name ORDER BY first_row_id, file_path
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    namespace, name, table_uuid, file_path,
    file_path AS subject,
    format('{}: its row ids begin at {}, those of {} end at {}', file_path, first_row_id, file_before, end_before)
        AS message
FROM ranges
WHERE first_row_id < end_before
UNION ALL
SELECT
    r.namespace, r.name, r.table_uuid, r.file_path,
    r.file_path,
    format('{}: its row ids end at {}, the table gives out {} next', r.file_path, r.end_row_id, t.next_row_id)
FROM ranges AS r
JOIN tables AS t ON t.namespace = r.namespace AND t.name = r.name
WHERE r.end_row_id > t.next_row_id
