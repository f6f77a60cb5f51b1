-- rule: shared-files
-- severity: warning
-- scope: tables
-- finds: Files that are live in two tables: what one of them deletes the other one loses, if another engine does it.
-- mend: Give each its own copy, or set gc.enabled = false in both so that nobody deletes their files.
WITH owned AS (
    SELECT
        namespace, name, table_uuid, name_now, min(f.file_path) AS file_path,
        -- Whichever way writers spell it.
        regexp_replace(regexp_replace(f.file_path, '^file:(//)?/', '/'), '^s3[an]:', 's3:') AS path
    FROM files AS f
    GROUP BY namespace, name, table_uuid, name_now, path
)
SELECT
    a.namespace, a.name, a.table_uuid,
    b.name_now AS other,
    count(*) AS shared_files,
    b.name_now AS subject,
    format('files that are in {} too: {}, as {}', b.name_now, count(*), min(a.file_path)) AS message
FROM owned AS a
JOIN owned AS b ON b.path = a.path AND (a.namespace, a.name) < (b.namespace, b.name)
GROUP BY a.namespace, a.name, a.table_uuid, b.namespace, b.name, b.name_now
