-- The rows of a scan in DuckDB. One row of `footers` is an element of a Parquet file's schema, files and their elements
-- in order; else one row is a row of the table. Bounds in files leave out NaN, which is above all numbers here.

-- name: footers
SELECT file_name, name, num_children, field_id, type, duckdb_type FROM parquet_schema($files);

-- name: whole_files
-- {columns}: what is made of the files' columns
-- {files}: a list of paths
-- {constants}: a comma and a relation of one row, or nothing
SELECT {columns} FROM read_parquet({files}, hive_partitioning = FALSE, can_have_nan = TRUE) AS f{constants}

-- name: files_with_deletes
-- {columns}: what is made of the files' columns
-- {files}: a list of paths
-- {constants}: a comma and a relation of one row, or nothing
-- {deleted}: a relation of places in the list and positions in the file
SELECT {columns} FROM read_parquet({files}, hive_partitioning = FALSE, can_have_nan = TRUE) AS f
ANTI JOIN {deleted} AS d ON d.file = f.file_index AND d.pos = f.file_row_number{constants}

-- name: given_rows
-- {columns}: columns of the relation
-- {rows}: a relation
SELECT {columns} FROM {rows}

-- name: counted_rows
-- {columns}: nulls of the relation's columns
-- {count}: a number of rows
SELECT {columns} FROM range({count})

-- name: renamed
-- {columns}: columns with their names
-- {rows}: a query
-- {limit}: LIMIT and a number, or nothing
SELECT {columns} FROM ({rows}) {limit}

-- name: view
-- {name}: a quoted name
-- {rows}: a query
CREATE OR REPLACE TEMP VIEW {name} AS {rows}

-- name: no_view
-- {name}: a quoted name
DROP VIEW IF EXISTS {name}
