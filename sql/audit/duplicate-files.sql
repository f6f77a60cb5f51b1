-- rule: duplicate-files
-- severity: error
-- finds: A file that is live twice in one table: its rows are read twice, or deleted twice.
-- mend: Remove one of the entries: table.overwrite_files() without the file, then table.add_files() of it.
SELECT
    namespace, name, table_uuid,
    min(f.file_path) AS file_path,
    count(*) AS times,
    min(f.file_path) AS subject,
    format('{} is live {} times', min(f.file_path), count(*)) AS message
FROM files AS f
GROUP BY
    namespace, name, table_uuid, content_offset,
    -- Whichever way writers spell it.
    regexp_replace(regexp_replace(f.file_path, '^file:(//)?/', '/'), '^s3[an]:', 's3:')
HAVING count(*) > 1
