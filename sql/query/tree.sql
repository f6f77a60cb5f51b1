-- A query as DuckDB parses it. One row of `to_tree` is the query's syntax tree as JSON, one row
-- of `to_sql` the SQL of such a tree.

-- name: to_tree
SELECT json_serialize_sql(CAST($query AS VARCHAR));

-- name: to_sql
SELECT json_deserialize_sql(CAST($tree AS JSON));

-- name: one_value
SELECT 1;
