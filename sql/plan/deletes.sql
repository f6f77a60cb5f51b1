-- Which delete files apply to which planned data files (Spec: Scan Planning, SP2 to SP7).
-- One row of a result is a pair: `file` is the `number` of a data file, `delete` that of a delete file. {data} and
-- {deletes} are queries in brackets for the planned data files and for the live delete files, with `number` and columns
-- of the wide entries. A statement is put together of the parts for the kinds of delete files that there are. The pairs
-- are in no order, each is there once: an equality delete is of an unpartitioned spec, and then for all data files, or it
-- is for those of its partition. Partitions are the same where their keys are equal, or, where values may have been lost,
-- where `alike_partitions` has the pair: {same_partition} says which, {in_partition} is what has deletes by keys of data.

-- name: kinds
SELECT
    coalesce(bool_or(content = 1 AND file_format = 'PUFFIN'), FALSE),
    coalesce(bool_or(content = 1 AND file_format <> 'PUFFIN' AND referenced_data_file IS NOT NULL), FALSE),
    coalesce(bool_or(content = 1 AND file_format <> 'PUFFIN' AND referenced_data_file IS NULL), FALSE),
    coalesce(bool_or(content = 2), FALSE),
    list_distinct(flatten(list(equality_ids) FILTER (content = 2)))
FROM {deletes} AS d WHERE content <> 0 AND status <> 2;

-- name: live_deletes
-- {plain_bounds} are the bounds on paths without scheme and authority.
SELECT *{plain_bounds} FROM {deletes} AS d WHERE content <> 0 AND status <> 2

-- name: files
data AS MATERIALIZED (SELECT * FROM {data}), deletes AS MATERIALIZED (SELECT * FROM {deletes})

-- name: equal_keys
data.partition_key = d.partition_key

-- name: alike_keys
(data.partition_key, d.partition_key) IN (SELECT (data_key, delete_key) FROM alike_partitions)

-- name: partition_keys
SELECT DISTINCT partition_key FROM {files} AS f

-- name: deletes_by_data_keys
deletes_of_alike AS (
    SELECT d.* REPLACE (a.data_key AS partition_key)
    FROM deletes AS d JOIN alike_partitions AS a ON a.delete_key = d.partition_key
)

-- name: vectors
SELECT data.number AS file, d.number AS "delete", {same_partition} AS same_partition
FROM data JOIN deletes AS d ON d.referenced_data_file = data.file_path
WHERE d.content = 1 AND d.file_format = 'PUFFIN' AND data.sequence_number <= d.sequence_number

-- name: each_vector
SELECT * FROM vectors

-- name: named
SELECT data.number AS file, d.number AS "delete", {same_partition} AS same_partition
FROM data JOIN deletes AS d ON d.referenced_data_file = data.file_path
WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND data.sequence_number <= d.sequence_number

-- name: positions
SELECT data.number AS file, d.number AS "delete", TRUE AS same_partition
FROM data JOIN {in_partition} AS d ON d.partition_key = data.partition_key
WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND d.referenced_data_file IS NULL
    AND data.sequence_number <= d.sequence_number AND ({path_bounds})

-- name: without_vector
-- Position deletes don't apply to a data file that has a deletion vector (SP4).
SELECT * FROM ({pairs}) AS p WHERE NOT EXISTS (
    SELECT 1 FROM vectors AS v WHERE v.file = p.file AND v.same_partition
)

-- name: equality
SELECT data.number AS file, d.number AS "delete", TRUE AS same_partition
FROM data JOIN {in_partition} AS d ON d.partition_key = data.partition_key
WHERE d.content = 2 AND NOT list_contains($unpartitioned::INTEGER[], d.spec_id)
    AND data.sequence_number < d.sequence_number AND ({equality_bounds})
UNION ALL
SELECT data.number AS file, d.number AS "delete", TRUE AS same_partition
-- Nearly all of these pairs are there, so to look at each costs less than the join of ranges that a plain comparison
-- would become.
FROM data CROSS JOIN deletes AS d
WHERE d.content = 2 AND list_contains($unpartitioned::INTEGER[], d.spec_id)
    AND coalesce(d.sequence_number > data.sequence_number, FALSE) AND ({equality_bounds})

-- name: nothing
SELECT number AS file, number AS "delete", TRUE AS same_partition FROM data WHERE FALSE;
