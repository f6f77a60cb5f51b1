-- rule: duplicate-files
-- severity: error
-- finds: A file that is live twice in one table: its rows are read twice, or deleted twice.
-- mend: Remove one of the entries: table.overwrite_files() without the file, then table.add_files() of it.
SELECT
    namespace, name, table_uuid, file_path,
    count(*) AS times,
    file_path AS subject,
    format('{} is live {} times', file_path, count(*)) AS message
FROM files
GROUP BY namespace, name, table_uuid, file_path, content_offset
HAVING count(*) > 1
