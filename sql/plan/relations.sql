-- Queries made of queries. One row is a row of one of them.

-- name: union_all
-- {first}: a query
-- {second}: a query with the same columns
{first}
UNION ALL
{second}
