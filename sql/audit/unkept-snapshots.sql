-- rule: unkept-snapshots
-- severity: note
-- finds: Snapshots of a table that no branch or tag leads to, as after a rollback or a staged write: they hold files.
-- mend: Tag what is still wanted; table.maintenance.expire_snapshots() lets the rest go when it is old enough.
SELECT
    namespace, name, table_uuid,
    count(*) AS snapshots,
    list(snapshot_id ORDER BY sequence_number) AS snapshot_ids,
    'snapshots' AS subject,
    format('snapshots that no branch or tag keeps: {}, the newest {}', count(*), arg_max(snapshot_id, committed_at))
        AS message
FROM snapshots
WHERE NOT is_kept_by_ref
GROUP BY namespace, name, table_uuid
