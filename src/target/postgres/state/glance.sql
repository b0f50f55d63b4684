-- What moves when anything is written, without a look at any table: the transaction ids, what
-- leaves no id, and what the backends $1 hold. $2: whether vacuums are counted at once. $3:
-- whether the cluster is somebody else's.
SELECT
  concat_ws(' ', pg_snapshot_xmax(pg_current_snapshot()),
    CASE WHEN $2 THEN (SELECT sum(pg_stat_get_vacuum_count(oid)) FROM pg_class
      WHERE relnamespace = to_regnamespace('public') AND relkind IN ('r', 'm')) END,
    CASE WHEN NOT $3 THEN (SELECT concat(modification, ' ', size)
      FROM pg_stat_file('postgresql.auto.conf', true)) END,
    CASE WHEN NOT $3 THEN (SELECT string_agg(s.slot_name, ',' ORDER BY s.slot_name)
      FROM pg_get_replication_slots() s) END) AS moved,
  held.relation OR EXISTS (
    SELECT FROM pg_stat_get_activity(NULL) a WHERE a.pid = ANY ($1)
    AND a.state LIKE 'idle in transaction%' AND a.backend_xid IS NOT NULL) AS pending,
  held.advisory,
  EXISTS (SELECT FROM pg_stat_get_activity(NULL) a
    WHERE a.pid = ANY ($1) AND a.state IN ('active', 'fastpath function call')) AS active,
  ARRAY(SELECT gid FROM pg_prepared_xacts WHERE database = current_database()) AS prepared
FROM (
  SELECT
    coalesce(bool_or(locktype = 'relation' AND mode <> 'AccessShareLock'), false) AS relation,
    coalesce(array_agg(concat_ws(' ', pid, classid, objid, objsubid, mode))
      FILTER (WHERE locktype = 'advisory'), '{}') AS advisory
  FROM pg_lock_status() WHERE granted AND pid = ANY ($1)
) held
