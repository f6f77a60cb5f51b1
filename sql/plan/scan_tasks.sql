-- The tasks of a scan as JSON, as clients of a REST catalog read them (REST document: FileScanTask, DeleteFile). One
-- row is the text of one data file's task, or of one delete file, each after a comma.

-- name: data_tasks
-- {metrics}: texts of the metrics that were asked for, each before a comma
SELECT concat(
    ',{{"data-file":{{"spec-id":', f.spec_id, ',"content":"data","file-path":', to_json(f.file_path),
    ',"file-format":"', lower(f.file_format), '","partition":', f.partition,
    ',"file-size-in-bytes":', f.file_size_in_bytes, ',"record-count":', f.record_count, {metrics}
    ',"key-metadata":"' || hex(f.key_metadata) || '"', ',"split-offsets":' || f.split_offsets::VARCHAR,
    ',"sort-order-id":' || f.sort_order_id, ',"first-row-id":' || f.first_row_id, '}}',
    CASE WHEN len(f.delete_files) > 0 THEN ',"delete-file-references":' || f.delete_files::VARCHAR END,
    ',"residual-filter":', f.residual, '}}'
) AS task
FROM tasks_of_scan AS f;

-- name: delete_files
-- {deletes}: the delete files
SELECT concat(
    ',{{"spec-id":', d.spec_id, ',"content":"', CASE d.content WHEN 1 THEN 'position' ELSE 'equality' END,
    '-deletes","file-path":', to_json(d.file_path), ',"file-format":"', lower(d.file_format),
    '","partition":', d.partition, ',"file-size-in-bytes":', d.file_size_in_bytes,
    ',"record-count":', d.record_count, ',"key-metadata":"' || hex(d.key_metadata) || '"',
    ',"split-offsets":' || d.split_offsets::VARCHAR, ',"equality-ids":' || d.equality_ids::VARCHAR,
    ',"sort-order-id":' || d.sort_order_id, ',"referenced-data-file":' || to_json(d.referenced_data_file)::VARCHAR,
    ',"content-offset":' || d.content_offset, ',"content-size-in-bytes":' || d.content_size_in_bytes, '}}'
) AS delete_file
FROM {deletes} AS d;

-- name: metric_map
-- {name}: the key of the metric, as `value-counts`
-- {fields}: the ids of the fields that have a value, as texts or null
-- {values}: the values as texts, null where a file has none
CASE WHEN coalesce({values}) IS NOT NULL THEN concat(
    ',"{name}":{{"keys":[', concat_ws(',', {fields}), '],"values":[', concat_ws(',', {values}), ']}}'
) END,

-- name: field_with_metric
-- {column}: a column of a metric
-- {id}: the id of its field
CASE WHEN f.{column} IS NOT NULL THEN '{id}' END

-- name: count_text
-- {column}: a column of counts
f.{column}::VARCHAR

-- name: bound_text
-- {column}: a column of bounds, as bytes
'"' || hex(f.{column}) || '"'
