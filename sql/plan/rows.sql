-- One row is a data row: whether the filter selects it. The order is that of the rows.

-- name: selected
-- {condition}: the filter
SELECT coalesce({condition}, FALSE) AS selected FROM data_rows;

-- name: not_selected
-- {condition}: the filter
SELECT NOT coalesce({condition}, FALSE) AS selected FROM data_rows;
