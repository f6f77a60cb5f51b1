-- Which delete files apply to which planned data files (Spec: Scan Planning, SP2 to SP7).
-- One row of a result is a pair: `m`, `ordinal` of a data file and `dm`, `dordinal` of a delete file. {data} and
-- {deletes} are the wide entries of the same table, {data_where} and {delete_where} choose the planned ones.

-- name: pairs
WITH data AS (
    SELECT *, regexp_replace(file_path, '^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?', '') AS plain_path
    FROM {entries} JOIN scan_manifests USING (m)
    WHERE content = 0 AND status <> 2 AND ({where})
),
deletes AS (
    SELECT * FROM {entries} JOIN scan_manifests USING (m) WHERE content <> 0 AND status <> 2
),
vectors AS (
    SELECT
        data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, d.sequence_number AS dseq,
        data.partition_key = d.partition_key AS same_partition
    FROM data JOIN deletes AS d ON d.referenced_data_file = data.file_path
    WHERE d.content = 1 AND d.file_format = 'PUFFIN' AND data.sequence_number <= d.sequence_number
),
named AS (
    SELECT
        data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, data.partition_key = d.partition_key AS same_partition
    FROM data JOIN deletes AS d ON d.referenced_data_file = data.file_path
    WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND data.sequence_number <= d.sequence_number
),
positions AS (
    SELECT data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, TRUE AS same_partition
    FROM data JOIN deletes AS d ON d.partition_key = data.partition_key
    WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND d.referenced_data_file IS NULL
      AND data.sequence_number <= d.sequence_number AND ({path_bounds})
),
equality AS (
    SELECT data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, TRUE AS same_partition
    FROM data JOIN deletes AS d ON d.partition_key = data.partition_key
    WHERE d.content = 2 AND data.sequence_number < d.sequence_number AND ({equality_bounds})
    UNION
    SELECT data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, TRUE AS same_partition
    FROM data JOIN deletes AS d ON d.sequence_number > data.sequence_number
    WHERE d.content = 2 AND d.spec_id IN (SELECT unnest($unpartitioned::INTEGER[])) AND ({equality_bounds})
)
SELECT m, ordinal, dm, dordinal, same_partition, TRUE AS is_vector FROM vectors
UNION ALL
SELECT m, ordinal, dm, dordinal, same_partition, FALSE FROM (
    SELECT * FROM named UNION ALL SELECT * FROM positions
) AS p WHERE NOT EXISTS (
    SELECT 1 FROM vectors AS v WHERE v.m = p.m AND v.ordinal = p.ordinal AND v.same_partition
)
UNION ALL
SELECT m, ordinal, dm, dordinal, same_partition, FALSE FROM equality
ORDER BY m, ordinal, dm, dordinal;
