-- What DuckDB gave in a type that only it has. One row is a value.

-- name: texts
-- {rows}: a relation with the column `value`
SELECT CAST(value AS VARCHAR) AS value FROM {rows}
