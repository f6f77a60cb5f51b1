-- rule: dangling-deletes
-- severity: warning
-- finds: Delete files that no data file of the table is old enough for, or whose data file is gone: they delete nothing.
-- mend: table.rewrite_position_delete_files() and table.rewrite_data_files() leave them out.
WITH of_partition AS (
    SELECT namespace, name, spec_id, partition, min(sequence_number) AS oldest
    FROM files WHERE content = 'data' GROUP BY ALL
),
of_table AS (SELECT namespace, name, min(oldest) AS oldest FROM of_partition GROUP BY ALL),
-- The path that a delete file names, and those of data files, whichever way writers spell them.
named AS (
    SELECT
        *,
        regexp_replace(
            regexp_replace(coalesce(referenced_data_file, file_path), '^file:(//)?/', '/'), '^s3[an]:', 's3:'
        ) AS path
    FROM files
),
of_path AS (
    SELECT namespace, name, path, min(sequence_number) AS oldest FROM named WHERE content = 'data' GROUP BY ALL
),
deletes AS (
    SELECT
        d.namespace, d.name, d.table_uuid, d.file_path, d.sequence_number, d.content,
        CASE
            WHEN d.referenced_data_file IS NOT NULL THEN f.oldest
            WHEN d.content = 'equality_deletes' AND d.partition = '' THEN t.oldest
            ELSE p.oldest
        END AS oldest
    FROM named AS d
    LEFT JOIN of_path AS f ON f.namespace = d.namespace AND f.name = d.name AND f.path = d.path
    LEFT JOIN of_table AS t ON t.namespace = d.namespace AND t.name = d.name
    LEFT JOIN of_partition AS p
        ON p.namespace = d.namespace AND p.name = d.name AND p.spec_id = d.spec_id AND p.partition = d.partition
    WHERE d.content <> 'data'
)
SELECT
    namespace, name, table_uuid,
    count(*) AS delete_files,
    'delete files' AS subject,
    format('delete files that delete nothing: {}, as {}', count(*), min(file_path)) AS message
FROM deletes
WHERE oldest IS NULL OR oldest > sequence_number - CASE content WHEN 'equality_deletes' THEN 1 ELSE 0 END
GROUP BY ALL
