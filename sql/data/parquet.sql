-- One Parquet file. One row is an element of its schema, in depth-first order, or a row of its data.

-- name: elements
SELECT name, field_id, num_children FROM parquet_schema($path);

-- name: all_columns
SELECT * FROM read_parquet($path, hive_partitioning = FALSE) LIMIT 0;

-- name: columns
-- {columns}: quoted names, each before a comma
SELECT {columns} file_row_number FROM read_parquet($path, hive_partitioning = FALSE, file_row_number = TRUE)
ORDER BY file_row_number;
