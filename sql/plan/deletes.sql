-- Which delete files apply to which planned data files (Spec: Scan Planning, SP2 to SP7).
-- One row of a result is a pair: `m`, `ordinal` of a data file and `dm`, `dordinal` of a delete file. {data} and
-- {deletes} are queries for the wide entries of the data and the delete manifests of the scan, {where} chooses the
-- planned data files. {plain_bounds} are the bounds on paths without scheme and authority. A statement is put together
-- of the parts for the kinds of delete files that there are. The pairs are in no order, each is there once: an equality
-- delete is of an unpartitioned spec, and then for all data files, or it is for those of its partition.

-- name: kinds
SELECT
    coalesce(bool_or(content = 1 AND file_format = 'PUFFIN'), FALSE),
    coalesce(bool_or(content = 1 AND file_format <> 'PUFFIN' AND referenced_data_file IS NOT NULL), FALSE),
    coalesce(bool_or(content = 1 AND file_format <> 'PUFFIN' AND referenced_data_file IS NULL), FALSE),
    coalesce(bool_or(content = 2), FALSE),
    list_distinct(flatten(list(equality_ids) FILTER (content = 2))),
    count(*)
FROM {deletes} AS d WHERE content <> 0 AND status <> 2;

-- name: kept
SELECT *{plain_bounds} FROM {deletes} AS d WHERE content <> 0 AND status <> 2;

-- name: files
data AS MATERIALIZED (
    SELECT * FROM {data} AS e WHERE e.content = 0 AND e.status <> 2 AND ({where})
),
deletes AS MATERIALIZED (
    SELECT *{plain_bounds} FROM {deletes} AS d WHERE content <> 0 AND status <> 2
)

-- name: vectors
SELECT
    data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, data.partition_key = d.partition_key AS same_partition,
    TRUE AS is_vector
FROM data JOIN deletes AS d ON d.referenced_data_file = data.file_path
WHERE d.content = 1 AND d.file_format = 'PUFFIN' AND data.sequence_number <= d.sequence_number

-- name: each_vector
SELECT * FROM vectors

-- name: named
SELECT
    data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, data.partition_key = d.partition_key AS same_partition,
    FALSE AS is_vector
FROM data JOIN deletes AS d ON d.referenced_data_file = data.file_path
WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND data.sequence_number <= d.sequence_number

-- name: positions
SELECT data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, TRUE AS same_partition, FALSE AS is_vector
FROM data JOIN deletes AS d ON d.partition_key = data.partition_key
WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND d.referenced_data_file IS NULL
    AND data.sequence_number <= d.sequence_number AND ({path_bounds})

-- name: without_vector
-- Position deletes don't apply to a data file that has a deletion vector (SP4).
SELECT * FROM ({pairs}) AS p WHERE NOT EXISTS (
    SELECT 1 FROM vectors AS v WHERE v.m = p.m AND v.ordinal = p.ordinal AND v.same_partition
)

-- name: equality
SELECT data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, TRUE AS same_partition, FALSE AS is_vector
FROM data JOIN deletes AS d ON d.partition_key = data.partition_key
WHERE d.content = 2 AND NOT list_contains($unpartitioned::INTEGER[], d.spec_id)
    AND data.sequence_number < d.sequence_number AND ({equality_bounds})
UNION ALL
SELECT data.m, data.ordinal, d.m AS dm, d.ordinal AS dordinal, TRUE AS same_partition, FALSE AS is_vector
-- Nearly all of these pairs are there, so to look at each costs less than the join of ranges that a plain comparison
-- would become.
FROM data CROSS JOIN deletes AS d
WHERE d.content = 2 AND list_contains($unpartitioned::INTEGER[], d.spec_id)
    AND coalesce(d.sequence_number > data.sequence_number, FALSE) AND ({equality_bounds})

-- name: nothing
SELECT data.m, data.ordinal, data.m AS dm, data.ordinal AS dordinal, TRUE AS same_partition, FALSE AS is_vector
FROM data WHERE FALSE;
