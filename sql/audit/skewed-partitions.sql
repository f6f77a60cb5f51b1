-- rule: skewed-partitions
-- severity: note
-- finds: A table whose largest partition has many times the bytes of the one in the middle: one task does the work.
-- mend: Partition it by something more even, as by a bucket too, or write larger partitions in several files.
-- option: skew = 10
-- option: skewed_bytes = 134217728
WITH sized AS (
    SELECT namespace, name, table_uuid, partition, sum(file_size_in_bytes) AS bytes
    FROM files
    WHERE content = 'data' AND partition <> ''
    GROUP BY ALL
),
skewed AS (
    SELECT
        namespace, name, table_uuid,
        count(*) AS partitions,
        max(bytes) AS largest,
        median(bytes) AS middle,
        arg_max(partition, bytes) AS partition
    FROM sized
    GROUP BY ALL
)
SELECT
    s.namespace, s.name, s.table_uuid, s.partition, s.partitions, s.largest::BIGINT AS largest, s.middle,
    s.partition AS subject,
    format('{} has {} bytes, the partition in the middle of {} has {}', s.partition, s.largest, s.partitions, s.middle::BIGINT)
        AS message
FROM skewed AS s
JOIN limits AS l ON l.namespace = s.namespace AND l.name = s.name
WHERE s.partitions > 2 AND s.largest > l.skew * s.middle AND s.largest > l.skewed_bytes
