-- The buckets of rows, in their order.

-- name: buckets
-- {columns}: columns of the relation
-- {rows}: a relation
SELECT CAST(hash({columns}) % CAST($count AS UBIGINT) AS BIGINT) AS bucket FROM {rows}
