-- What the conditions of a filter with many leaves become, in one row of the wide entries: bits of numbers, and
-- conditions that read alike as one over lists of their literals, whose items are called `each_literals`.

-- name: bit
-- {condition}: a condition that is never NULL
-- {bit}: what it adds where it holds, a power of two
CASE WHEN {condition} THEN {bit}::BIGINT ELSE 0 END

-- name: bits_of_alike
-- {lists}: lists of literals of one length, the last of them the bits
-- {condition}: a condition over the items of the lists
-- {last}: the place of the last list, from 1
list_sum(list_transform(
    list_zip({lists}), lambda each_literals: CASE WHEN {condition} THEN each_literals[{last}] ELSE 0 END
))::BIGINT

-- name: any_of_alike
-- {lists}: lists of literals of one length
-- {condition}: a condition over the items of the lists
list_bool_or(list_transform(list_zip({lists}), lambda each_literals: {condition}))

-- name: all_of_alike
-- {lists}: lists of literals of one length
-- {condition}: a condition over the items of the lists
list_bool_and(list_transform(list_zip({lists}), lambda each_literals: {condition}))
