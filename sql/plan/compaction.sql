-- Which data files are worth being written again. One row is a live data file of the snapshot: `place` is the partition
-- that it is packed in, which is one for all files of other specs. `planned_files`, `planned_deletes` and `planned_pairs`
-- are a plan of the snapshot: see projections/plan/planned_files.py. Pairs name files by `number`.

-- name: no_deletes
CREATE TEMP TABLE planned_deletes (
    number INTEGER, content INTEGER, record_count BIGINT, referenced_data_file VARCHAR
);

-- name: candidates
WITH deletes AS (
    SELECT
        p.file, count(*) AS delete_files,
        coalesce(sum(d.record_count) FILTER (WHERE d.content = 1 AND d.referenced_data_file IS NOT NULL), 0) AS deleted
    FROM planned_pairs AS p JOIN planned_deletes AS d ON d.number = p."delete"
    GROUP BY p.file
),
judged AS (
    SELECT
        f.file_path, f.file_size_in_bytes AS size_in_bytes,
        CASE WHEN f.spec_id = $spec_id THEN f.partition_key ELSE ''::BLOB END AS place,
        coalesce(d.delete_files, 0) >= $delete_file_threshold OR (
            coalesce(d.delete_files, 0) > 0
            AND least(d.deleted, f.record_count) >= $delete_ratio_threshold * f.record_count
        ) AS has_many_deletes
    FROM planned_files AS f LEFT JOIN deletes AS d ON d.file = f.number
)
SELECT file_path, size_in_bytes, place, has_many_deletes FROM judged
WHERE $rewrite_all OR has_many_deletes OR size_in_bytes < $min_size OR size_in_bytes > $max_size
ORDER BY place, file_path;
