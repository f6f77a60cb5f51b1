-- Which delete files apply to which planned data files (Spec: Scan Planning, SP2 to SP7).
-- One row of a result is a pair: `file` is the `number` of a data file, `delete` that of a delete file. A statement is
-- put together of the parts for the kinds of delete files that there are, over `data` and `deletes`. The pairs are in
-- no order, each is there once: an equality delete is of an unpartitioned spec, and then for all data files, or it is
-- for those of its partition. Partitions are the same where their keys are equal, or, where values may have been lost,
-- where `alike_partitions` has the pair.
--
-- The bounds on paths of position delete files are compared with and without what `root` has of them, which is scheme
-- and authority, or that there are none: writers don't always agree on these. Nor on how they spell the data file that
-- a delete file names, so that is compared by `path_key`.

-- name: kinds
-- {deletes}: a query in brackets, or a table, with entries
SELECT
    coalesce(bool_or(content = 1 AND file_format = 'PUFFIN'), FALSE),
    coalesce(bool_or(content = 1 AND file_format <> 'PUFFIN' AND referenced_data_file IS NOT NULL), FALSE),
    coalesce(bool_or(content = 1 AND file_format <> 'PUFFIN' AND referenced_data_file IS NULL), FALSE),
    coalesce(bool_or(content = 2), FALSE),
    list_distinct(flatten(list(equality_ids) FILTER (content = 2))),
    count(*)
FROM {deletes} AS d WHERE content <> 0 AND status <> 2;

-- name: live_deletes
-- {deletes}: a query in brackets, or a table, with entries
-- {plain_bounds}: `plain_bound` of the bounds on paths that there are
-- {near}: `near`, or nothing
SELECT *{plain_bounds} FROM {deletes} AS d WHERE content <> 0 AND status <> 2{near}

-- name: near
-- Whether a delete file can apply to some of the data files by its name or partition, which has lost no values.
-- {data}: a table of data files
-- {named_key}: `path_key` of the data file that the delete file names
-- {data_key}: `path_key` of a data file
 AND CASE WHEN content = 1 AND referenced_data_file IS NOT NULL THEN {named_key} IN (SELECT {data_key} FROM {data})
          ELSE (content = 2 AND list_contains($unpartitioned::INTEGER[], spec_id))
              OR partition_key IN (SELECT partition_key FROM {data}) END

-- name: plain_path
-- {path}: a path
regexp_replace({path}, '^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?', '')

-- name: path_key
-- What `location.path_key` has, in fewer steps.
-- {path}: a path
CASE WHEN starts_with({path}, 'file:///') THEN substring({path}, 8)
     WHEN starts_with({path}, 'file:/') THEN substring({path}, 6)
     WHEN starts_with({path}, 's3a:') OR starts_with({path}, 's3n:') THEN 's3' || substring({path}, 4)
     ELSE {path} END

-- name: plain_bound
-- {column}: the name of a bound
-- {bound}: the bound, of `d`
-- {plain}: `plain_path` of it
, CASE WHEN starts_with({bound}, '/') THEN '/'
       ELSE regexp_extract({bound}, '^(/|[A-Za-z][A-Za-z0-9+.-]*://[^/]*/)') END AS root_{column},
(root_{column} <> '' AND length({bound}) > length(root_{column}))
    OR regexp_matches({bound}, '^(file:/[^/0]|[^/:]+/.)') AS is_whole_{column},
CASE WHEN root_{column} = '' THEN {plain} ELSE substring({bound}, length(root_{column})) END AS plain_{column}

-- name: alike_bounds
-- Whether all paths between two bounds are spelled as these are: what is before the path is the same, and in both whole.
-- {lower}: the lower bound, of `d`
-- {upper}: the upper bound, of `d`
-- {at_lower}: the name of the lower bound
-- {at_upper}: the name of the upper bound
, coalesce(is_whole_{at_lower} AND is_whole_{at_upper} AND root_{at_lower} = root_{at_upper} AND (
    root_{at_lower} <> '' OR {lower} = {upper} OR (starts_with({lower}, 'file:/') AND starts_with({upper}, 'file:/'))
), FALSE) AS are_alike

-- name: above_path_bound
-- Where path and bounds have one root, both ways to compare say the same, and the slow one is left out. Bounds that are
-- not alike say nothing of files that are spelled in another way.
-- {column}: the name of a lower bound
-- {bound}: the bound, of `d`
-- {plain}: `plain_path` of the data file's path
({bound} IS NULL OR {bound} <= data.file_path OR NOT d.are_alike OR (
    (d.root_{column} = '' OR NOT starts_with(data.file_path, d.root_{column})) AND d.plain_{column} <= {plain}
))

-- name: below_path_bound
-- {column}: the name of an upper bound
-- {bound}: the bound, of `d`
-- {plain}: `plain_path` of the data file's path
({bound} IS NULL OR {bound} >= data.file_path OR NOT d.are_alike OR (
    (d.root_{column} = '' OR NOT starts_with(data.file_path, d.root_{column})) AND d.plain_{column} >= {plain}
))

-- name: pairs
-- {data}: a query in brackets, or a table, for the planned data files, with `number` and columns of the wide entries
-- {deletes}: likewise for the live delete files, with `plain_bound` of their bounds on paths
-- {more}: what is asked of these two once, `deletes_by_data_keys` and `vectors`
-- {pairs}: queries for pairs
WITH data AS MATERIALIZED (SELECT * FROM {data}), deletes AS MATERIALIZED (SELECT * FROM {deletes}){more}
{pairs}

-- name: equal_keys
data.partition_key = d.partition_key

-- name: alike_keys
(data.partition_key, d.partition_key) IN (SELECT (data_key, delete_key) FROM alike_partitions)

-- name: partition_keys
-- {files}: a query in brackets, or a table, with entries
SELECT DISTINCT partition_key FROM {files} AS f

-- name: deletes_by_data_keys
, deletes_of_alike AS (
    SELECT d.* REPLACE (a.data_key AS partition_key)
    FROM deletes AS d JOIN alike_partitions AS a ON a.delete_key = d.partition_key
)

-- name: vectors
-- {same_partition}: `equal_keys` or `alike_keys`
-- {named_key}: `path_key` of the data file that the delete file names
-- {data_key}: `path_key` of a data file
, vectors AS (
    SELECT data.number AS file, d.number AS "delete", {same_partition} AS same_partition
    FROM data JOIN deletes AS d ON {named_key} = {data_key}
    WHERE d.content = 1 AND d.file_format = 'PUFFIN' AND data.sequence_number <= d.sequence_number
)

-- name: each_vector
SELECT * FROM vectors

-- name: named
-- {same_partition}: `equal_keys` or `alike_keys`
-- {named_key}: as in `vectors`
-- {data_key}: as in `vectors`
SELECT data.number AS file, d.number AS "delete", {same_partition} AS same_partition
FROM data JOIN deletes AS d ON {named_key} = {data_key}
WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND data.sequence_number <= d.sequence_number

-- name: positions
-- {in_partition}: `deletes`, or `deletes_of_alike` where keys are not all there is
-- {path_bounds}: whether the path may lie in the delete file's bounds
SELECT data.number AS file, d.number AS "delete", TRUE AS same_partition
FROM data JOIN {in_partition} AS d ON d.partition_key = data.partition_key
WHERE d.content = 1 AND d.file_format <> 'PUFFIN' AND d.referenced_data_file IS NULL
    AND data.sequence_number <= d.sequence_number AND ({path_bounds})

-- name: without_vector
-- {pairs}: a query for pairs of position deletes
-- Position deletes don't apply to a data file that has a deletion vector (SP4).
SELECT * FROM ({pairs}) AS p WHERE NOT EXISTS (
    SELECT 1 FROM vectors AS v WHERE v.file = p.file AND v.same_partition
)

-- name: equality
-- {in_partition}: `deletes`, or `deletes_of_alike` where keys are not all there is
-- {equality_bounds}: whether the delete file may hold a row of the data file, by bounds and counts
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
