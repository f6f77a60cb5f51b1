-- rule: dangling-deletes
-- severity: warning
-- finds: Delete files that no data file of the table is old enough for, or whose data file is gone: they delete nothing.
-- mend: table.remove_dangling_deletes() leaves them out.
WITH of_partition AS (
    SELECT namespace, name, spec_id, partition, min(sequence_number) AS oldest
    FROM files WHERE content = 'data' GROUP BY ALL
),
of_table AS (SELECT namespace, name, min(oldest) AS oldest FROM of_partition GROUP BY ALL),
-- The path that a delete file names, and those of data files, whichever way writers spell them. Both its bounds on
-- paths (of the column 2147483546) may name one too, compared as plans do it, without scheme and authority.
named AS (
    SELECT
        *,
        regexp_replace(
            regexp_replace(coalesce(referenced_data_file, file_path), '^file:(//)?/', '/'), '^s3[an]:', 's3:'
        ) AS path,
        CASE
            WHEN content = 'position_deletes' AND referenced_data_file IS NULL
                AND lower_bounds[2147483546] = upper_bounds[2147483546]
                THEN try(decode(lower_bounds[2147483546]))
        END AS bound,
        regexp_replace(coalesce(bound, file_path), '^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?', '') AS plain_path
    FROM files
),
of_path AS (
    SELECT namespace, name, path, min(sequence_number) AS oldest FROM named WHERE content = 'data' GROUP BY ALL
),
of_plain_path AS (
    SELECT namespace, name, spec_id, partition, plain_path, min(sequence_number) AS oldest
    FROM named WHERE content = 'data' GROUP BY ALL
),
deletes AS (
    SELECT
        d.namespace, d.name, d.table_uuid, d.file_path, d.sequence_number, d.content,
        CASE
            WHEN d.referenced_data_file IS NOT NULL THEN f.oldest
            WHEN d.bound IS NOT NULL THEN b.oldest
            WHEN d.content = 'equality_deletes' AND d.partition = '' THEN t.oldest
            ELSE p.oldest
        END AS oldest
    FROM named AS d
    LEFT JOIN of_path AS f ON f.namespace = d.namespace AND f.name = d.name AND f.path = d.path
    LEFT JOIN of_plain_path AS b
        ON b.namespace = d.namespace AND b.name = d.name AND b.spec_id = d.spec_id AND b.partition = d.partition
        AND b.plain_path = d.plain_path
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
