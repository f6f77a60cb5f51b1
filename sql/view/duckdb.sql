-- What is said to DuckDB around the query of a view. One row of `to_tree` is the query's syntax tree as JSON, one row
-- of `to_sql` the SQL of such a tree.

-- name: to_tree
SELECT json_serialize_sql(CAST($query AS VARCHAR));

-- name: to_sql
SELECT json_deserialize_sql(CAST($tree AS JSON));

-- name: arrow_as_is
SET arrow_lossless_conversion = true;

-- name: utc
SET TimeZone = 'UTC';

-- name: no_files
SET enable_external_access = false;

-- name: no_python_names
SET python_enable_replacements = false;
