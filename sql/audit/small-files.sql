-- rule: small-files
-- severity: warning
-- finds: Partitions of a table with many small data files, each of which a scan has to plan and to open.
-- mend: table.rewrite_data_files() makes larger ones of them.
-- option: small_file_bytes = 16777216
-- option: small_files = 20
WITH small AS (
    SELECT f.namespace, f.name, f.table_uuid, f.partition, count(*) AS files, sum(f.file_size_in_bytes) AS bytes
    FROM files AS f
    JOIN limits AS l ON l.namespace = f.namespace AND l.name = f.name
    WHERE f.content = 'data' AND f.file_size_in_bytes < l.small_file_bytes
    GROUP BY f.namespace, f.name, f.table_uuid, f.spec_id, f.partition, l.small_files
    HAVING count(*) > l.small_files
)
SELECT
    namespace, name, table_uuid,
    count(*) AS partitions,
    sum(files)::BIGINT AS files,
    sum(bytes)::BIGINT AS bytes,
    'small files' AS subject,
    format(
        'small files: {} of {} bytes on average; partitions with too many of them: {}{}',
        sum(files), (sum(bytes) / sum(files))::BIGINT, count(*),
        CASE arg_max(partition, files) WHEN '' THEN '' ELSE concat(', the most in ', arg_max(partition, files)) END
    ) AS message
FROM small
GROUP BY ALL
