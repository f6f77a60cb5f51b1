-- rule: value-counts
-- severity: error
-- finds: A column of a data file of which more or fewer values are counted than the file has rows: by such counts a
--   filter leaves out rows that it should find, or a count without reading is wrong.
-- mend: table.rewrite_data_files(options={"rewrite-all": "true"}) writes the files anew, with counts that are right.
WITH counted AS (
    SELECT namespace, name, table_uuid, file_path, record_count, unnest(map_entries(value_counts)) AS counted
    FROM files
    -- Writers that didn't know a number of records have left -1 behind.
    WHERE content = 'data' AND record_count >= 0
        AND len(list_distinct(list_append(map_values(value_counts), record_count))) > 1
),
-- What stands in a list or map has as many values as there are elements; in a struct, by some writers, as structs.
nested AS (
    SELECT namespace, name, column_name
    FROM columns
    WHERE type LIKE 'list<%' OR type LIKE 'map<%' OR type LIKE 'struct<%'
)
SELECT
    f.namespace, f.name, f.table_uuid, f.file_path, c.column_name,
    f.counted.value AS value_count,
    f.record_count,
    concat_ws(' ', f.file_path, c.column_name) AS subject,
    format('{}: {} values are counted in {}, of {} rows', f.file_path, f.counted.value, c.column_name, f.record_count)
        AS message
FROM counted AS f
JOIN columns AS c ON c.namespace = f.namespace AND c.name = f.name AND c.field_id = f.counted.key
WHERE f.counted.value <> f.record_count AND NOT EXISTS (
    SELECT 1 FROM nested AS n
    WHERE n.namespace = c.namespace AND n.name = c.name AND starts_with(c.column_name, concat(n.column_name, '.'))
)
