-- Everything of a database but its rows, one line an object: section, words, key, parent, digest,
-- how to remove it where it was made, how to bring it back where it was changed or removed.
-- `reads` is the quoted name of a table or sequence whose content may be read besides.
-- $1: whether the cluster is somebody else's, in which only what belongs to the seed is watched.
-- $2: whether vacuums are counted at once, which they are since Postgres 15.
-- Runs on Postgres 13 to 18 with the search path pg_catalog, and gets no transaction id.
WITH
space AS (
  SELECT oid, nspname, nspowner, nspacl FROM pg_namespace
  WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
),
rel AS (
  SELECT c.*, s.nspname, format('%I.%I', s.nspname, c.relname) AS name,
    format('%s.%s', s.nspname, c.relname) AS words
  FROM pg_class c JOIN space s ON s.oid = c.relnamespace
  WHERE c.relpersistence <> 't'
),
-- Of an index the table, of a sequence the table whose column owns it.
belongs AS (
  SELECT i.indexrelid AS oid, 'relation ' || t.words AS parent
  FROM pg_index i JOIN rel t ON t.oid = i.indrelid
  UNION ALL
  SELECT d.objid, min('relation ' || t.words)
  FROM pg_depend d JOIN rel s ON s.oid = d.objid AND s.relkind = 'S' JOIN rel t ON t.oid = d.refobjid
  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.deptype IN ('a', 'i')
  GROUP BY d.objid
),
role AS (
  SELECT * FROM pg_authid WHERE rolname !~ '^pg_' AND (NOT $1 OR rolname ~ '^sm_')
),
other AS (
  SELECT i.type, i.identity, o.digest FROM (
    SELECT 'pg_cast'::regclass AS class, oid, record_out(x)::text AS digest FROM pg_cast x
    UNION ALL SELECT 'pg_conversion'::regclass, oid, record_out(x)::text FROM pg_conversion x
    UNION ALL SELECT 'pg_collation'::regclass, oid, record_out(x)::text FROM pg_collation x
    UNION ALL SELECT 'pg_opclass'::regclass, oid, record_out(x)::text FROM pg_opclass x
    UNION ALL SELECT 'pg_opfamily'::regclass, oid, record_out(x)::text FROM pg_opfamily x
    UNION ALL SELECT 'pg_ts_config'::regclass, oid, record_out(x)::text FROM pg_ts_config x
    UNION ALL SELECT 'pg_ts_dict'::regclass, oid, record_out(x)::text FROM pg_ts_dict x
    UNION ALL SELECT 'pg_ts_parser'::regclass, oid, record_out(x)::text FROM pg_ts_parser x
    UNION ALL SELECT 'pg_ts_template'::regclass, oid, record_out(x)::text FROM pg_ts_template x
    UNION ALL SELECT 'pg_language'::regclass, oid, record_out(x)::text FROM pg_language x
    UNION ALL SELECT 'pg_am'::regclass, oid, record_out(x)::text FROM pg_am x
    UNION ALL SELECT 'pg_foreign_data_wrapper'::regclass, oid, record_out(x)::text
      FROM pg_foreign_data_wrapper x
    UNION ALL SELECT 'pg_foreign_server'::regclass, oid, record_out(x)::text
      FROM pg_foreign_server x
    UNION ALL SELECT 'pg_user_mapping'::regclass, oid, record_out(x)::text FROM pg_user_mapping x
    UNION ALL SELECT 'pg_event_trigger'::regclass, oid, record_out(x)::text
      FROM pg_event_trigger x
    UNION ALL SELECT 'pg_publication'::regclass, oid,
      record_out(x)::text || (SELECT count(*) FROM pg_publication_rel r WHERE r.prpubid = x.oid)
      FROM pg_publication x
    UNION ALL SELECT 'pg_statistic_ext'::regclass, oid, record_out(x)::text
      FROM pg_statistic_ext x
  ) o, pg_identify_object(o.class, o.oid, 0) i
  WHERE o.oid >= 16384 AND coalesce(i.schema, '') !~ '^pg_temp_'
),
remark AS (
  SELECT d.*, i.type, i.identity, t.words AS relation
  FROM pg_description d
  CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) i
  LEFT JOIN rel t ON d.classoid = 'pg_class'::regclass AND t.oid = d.objoid
  WHERE (d.objoid >= 16384 OR d.objoid = to_regnamespace('public')) AND i.identity IS NOT NULL
    AND i.identity !~ '^pg_temp_'
)
SELECT section, coalesce(object, section) AS object, coalesce(key, '') AS key, parent,
  hashtextextended(digest, 0)::text AS digest, undo, redo, reads
FROM (
  SELECT 'schema' AS section, 'schema ' || nspname AS object, '' AS key, NULL AS parent,
    nspowner::regrole::text AS digest, format('DROP SCHEMA IF EXISTS %I CASCADE', nspname) AS undo,
    format('CREATE SCHEMA IF NOT EXISTS %I; ALTER SCHEMA %1$I OWNER TO %s', nspname,
      nspowner::regrole) AS redo, NULL AS reads
  FROM space

  UNION ALL
  SELECT CASE relkind WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' ELSE 'relation' END,
    CASE relkind WHEN 'i' THEN 'index ' WHEN 'I' THEN 'index ' WHEN 'S' THEN 'sequence '
      ELSE 'relation ' END || words,
    '', b.parent,
    concat_ws(' ', relkind, relowner::regrole, relpersistence, relrowsecurity,
      relforcerowsecurity, reloptions, relreplident, reltablespace, relispartition,
      pg_get_expr(relpartbound, rel.oid),
      (SELECT string_agg(inhparent::regclass::text, ',' ORDER BY inhseqno) FROM pg_inherits
        WHERE inhrelid = rel.oid),
      CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(rel.oid) END,
      CASE WHEN relkind IN ('i', 'I') THEN pg_get_indexdef(rel.oid) || (
        SELECT concat(indisclustered, indisvalid, indisreplident) FROM pg_index
        WHERE indexrelid = rel.oid) END,
      CASE WHEN relkind = 'S' THEN (
        SELECT concat_ws(' ', seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache,
          seqcycle) FROM pg_sequence WHERE seqrelid = rel.oid) END),
    format('DROP %s IF EXISTS %s CASCADE', CASE relkind WHEN 'v' THEN 'VIEW'
      WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'S' THEN 'SEQUENCE'
      WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END, name),
    CASE WHEN relkind = 'i' THEN format(
      'UPDATE pg_index SET indisclustered = %L WHERE indexrelid = to_regclass(%L)',
      (SELECT indisclustered FROM pg_index WHERE indexrelid = rel.oid), name) END,
    CASE WHEN relkind IN ('r', 'S') THEN name END
  FROM rel LEFT JOIN belongs b ON b.oid = rel.oid
  WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'c', 'S', 'i', 'I')

  UNION ALL
  SELECT 'column', format('column %s of %s', a.attname, words), '', 'relation ' || words,
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
      a.attgenerated, a.attcollation::regcollation, a.attstorage, a.attoptions, a.attfdwoptions,
      a.attstattarget, pg_get_expr(d.adbin, d.adrelid)),
    format('ALTER TABLE IF EXISTS %s DROP COLUMN IF EXISTS %I CASCADE', name, a.attname), NULL, NULL
  FROM rel JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'c')

  UNION ALL
  SELECT 'constraint', format('constraint %s of %s', n.conname, words), '', 'relation ' || words,
    concat_ws(' ', pg_get_constraintdef(n.oid), n.convalidated),
    format('ALTER TABLE IF EXISTS %s DROP CONSTRAINT IF EXISTS %I CASCADE', name, n.conname), NULL, NULL
  FROM rel JOIN pg_constraint n ON n.conrelid = rel.oid AND n.contype <> 't'

  UNION ALL
  SELECT 'trigger', format('trigger %s of %s', t.tgname, words), '', 'relation ' || words,
    concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled),
    format('DROP TRIGGER IF EXISTS %I ON %s CASCADE', t.tgname, name), NULL, NULL
  FROM rel JOIN pg_trigger t ON t.tgrelid = rel.oid AND NOT t.tgisinternal

  UNION ALL
  SELECT 'rule', format('rule %s of %s', r.rulename, words), '', 'relation ' || words,
    concat_ws(' ', pg_get_ruledef(r.oid), r.ev_enabled),
    format('DROP RULE IF EXISTS %I ON %s CASCADE', r.rulename, name), NULL, NULL
  FROM rel JOIN pg_rewrite r ON r.ev_class = rel.oid AND r.rulename <> '_RETURN'

  UNION ALL
  SELECT 'policy', format('policy %s of %s', p.polname, words), '', 'relation ' || words,
    concat_ws(' ', p.polcmd, p.polpermissive,
      (SELECT string_agg(CASE r WHEN 0 THEN 'public' ELSE r::regrole::text END, ',' ORDER BY r)
        FROM unnest(p.polroles) r),
      pg_get_expr(p.polqual, p.polrelid), '/', pg_get_expr(p.polwithcheck, p.polrelid)),
    format('DROP POLICY IF EXISTS %I ON %s', p.polname, name), NULL, NULL
  FROM rel JOIN pg_policy p ON p.polrelid = rel.oid

  UNION ALL
  SELECT 'function', format('function %s.%s', s.nspname, p.proname),
    pg_get_function_identity_arguments(p.oid), NULL,
    concat_ws(' ', p.proowner::regrole, p.prokind, p.prosrc,
      CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END),
    format('DROP ROUTINE IF EXISTS %I.%I(%s) CASCADE', s.nspname, p.proname,
      pg_get_function_identity_arguments(p.oid)),
    NULL, NULL
  FROM pg_proc p JOIN space s ON s.oid = p.pronamespace

  UNION ALL
  SELECT 'type', format('type %s.%s', s.nspname, t.typname), '', NULL,
    concat_ws(' ', t.typtype, t.typowner::regrole, format_type(t.typbasetype, t.typtypmod),
      t.typnotnull, t.typdefault,
      (SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum
        WHERE enumtypid = t.oid),
      (SELECT string_agg(pg_get_constraintdef(n.oid), ',' ORDER BY conname) FROM pg_constraint n
        WHERE n.contypid = t.oid)),
    format('DROP %s IF EXISTS %I.%I CASCADE', CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END,
      s.nspname, t.typname),
    NULL, NULL
  FROM pg_type t JOIN space s ON s.oid = t.typnamespace
  WHERE t.typtype IN ('d', 'e', 'r', 'p') OR t.typtype = 'b' AND t.typarray <> 0

  UNION ALL
  SELECT 'operator', format('operator %s.%s', s.nspname, o.oprname), i.identity, NULL,
    concat_ws(' ', o.oprowner::regrole, o.oprcode, o.oprresult::regtype, o.oprrest, o.oprjoin,
      o.oprcanmerge, o.oprcanhash),
    format('DROP OPERATOR IF EXISTS %s CASCADE', i.identity), NULL, NULL
  FROM pg_operator o JOIN space s ON s.oid = o.oprnamespace
  CROSS JOIN LATERAL pg_identify_object('pg_operator'::regclass, o.oid, 0) i

  UNION ALL
  SELECT 'extension', 'extension ' || extname, '', NULL,
    concat_ws(' ', extowner::regrole, extversion, extnamespace::regnamespace),
    format('DROP EXTENSION IF EXISTS %I CASCADE', extname), NULL, NULL
  FROM pg_extension

  UNION ALL
  SELECT 'object', format('%s %s', type, identity), '', NULL, digest,
    CASE type WHEN 'user mapping' THEN NULL ELSE format('DROP %s IF EXISTS %s CASCADE',
      CASE type WHEN 'statistics object' THEN 'STATISTICS'
        ELSE upper(replace(type, '-', ' ')) END, identity) END,
    NULL, NULL
  FROM other

  UNION ALL
  SELECT 'large object', 'large object', m.oid::text, NULL,
    concat_ws(' ', m.lomowner::regrole, m.lomacl::text,
      (SELECT sum(hashtextextended(concat_ws(' ', l.pageno, l.data), 0)) FROM pg_largeobject l
        WHERE l.loid = m.oid)),
    format('SELECT lo_unlink(%s)', m.oid), NULL, NULL
  FROM pg_largeobject_metadata m

  UNION ALL
  SELECT 'comment', 'comment on ' || identity, type, 'relation ' || relation, description,
    format('DELETE FROM pg_description WHERE objoid = %s AND classoid = %s AND objsubid = %s',
      objoid, classoid, objsubid),
    format('COMMENT ON %s %s IS %L', CASE WHEN objsubid <> 0 THEN 'COLUMN' ELSE upper(type) END,
      identity, description), NULL
  FROM remark

  UNION ALL
  SELECT 'comment', format('comment on %s %s', i.type, i.identity), '', NULL, d.description,
    format('DELETE FROM pg_shdescription WHERE objoid = %s AND classoid = %s', d.objoid,
      d.classoid),
    format('DELETE FROM pg_shdescription WHERE objoid = %s AND classoid = %s; '
      'INSERT INTO pg_shdescription (objoid, classoid, description) VALUES (%1$s, %2$s, %3$L)',
      d.objoid, d.classoid, d.description), NULL
  FROM pg_shdescription d CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, 0) i
  WHERE d.classoid = 'pg_authid'::regclass AND d.objoid IN (SELECT oid FROM role)
    OR d.classoid = 'pg_database'::regclass
      AND d.objoid = (SELECT oid FROM pg_database WHERE datname = current_database())

  UNION ALL
  SELECT 'privileges', 'privileges of ' || words, '', parent,
    (SELECT string_agg(x::text, ',' ORDER BY x::text) FROM unnest(acl) x),
    CASE WHEN field = 'proacl' THEN
      format('UPDATE pg_proc SET proacl = NULL WHERE %s', which) END,
    format('UPDATE %s SET %I = %L WHERE %s', catalogue, field, acl::text, which), NULL
  FROM (
    SELECT words, 'relation ' || words AS parent, relacl AS acl, 'pg_class' AS catalogue,
      'relacl' AS field, format('oid = to_regclass(%L)', name) AS which
    FROM rel WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT format('column %s of %s', a.attname, words), 'relation ' || words, a.attacl,
      'pg_attribute', 'attacl',
      format('attrelid = to_regclass(%L) AND attname = %L', name, a.attname)
    FROM rel JOIN pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT i.identity, format('function %s.%s', s.nspname, p.proname), p.proacl, 'pg_proc',
      'proacl', format('oid = to_regprocedure(%L)', i.identity)
    FROM pg_proc p JOIN space s ON s.oid = p.pronamespace
    CROSS JOIN LATERAL pg_identify_object('pg_proc'::regclass, p.oid, 0) i
    UNION ALL
    SELECT i.identity, NULL, p.proacl, 'pg_proc', 'proacl', format('oid = %s', p.oid)
    FROM pg_proc p CROSS JOIN LATERAL pg_identify_object('pg_proc'::regclass, p.oid, 0) i
    WHERE p.oid < 16384 AND p.proacl IS NOT NULL AND NOT $1
    UNION ALL
    SELECT 'schema ' || nspname, 'schema ' || nspname, nspacl, 'pg_namespace', 'nspacl',
      format('nspname = %L', nspname)
    FROM space
    UNION ALL
    SELECT 'database ' || datname, 'database ' || datname, datacl, 'pg_database', 'datacl',
      format('datname = %L', datname)
    FROM pg_database WHERE datname = current_database() OR NOT $1
    UNION ALL
    SELECT 'language ' || lanname, 'language ' || lanname, lanacl, 'pg_language', 'lanacl',
      format('lanname = %L', lanname)
    FROM pg_language
  ) a

  UNION ALL
  SELECT 'privileges', 'default privileges of role ' || defaclrole::regrole,
    concat_ws(' ', CASE defaclnamespace WHEN 0 THEN NULL ELSE defaclnamespace::regnamespace END,
      defaclobjtype), NULL,
    defaclacl::text, format('DELETE FROM pg_default_acl WHERE oid = %s', oid),
    format('DELETE FROM pg_default_acl WHERE oid = %s; INSERT INTO pg_default_acl '
      'SELECT * FROM jsonb_populate_record(NULL::pg_default_acl, %L)', oid, to_jsonb(x)), NULL
  FROM pg_default_acl x

  UNION ALL
  SELECT 'role', 'role ' || rolname, '', NULL,
    concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
      rolbypassrls, rolconnlimit, rolvaliduntil, rolpassword),
    format('DROP OWNED BY %I CASCADE; DROP ROLE %1$I', rolname),
    format('UPDATE pg_authid SET rolsuper = %L, rolinherit = %L, rolcreaterole = %L, '
      'rolcreatedb = %L, rolcanlogin = %L, rolreplication = %L, rolbypassrls = %L, '
      'rolconnlimit = %L, rolvaliduntil = %L, rolpassword = %L WHERE rolname = %L', rolsuper,
      rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls,
      rolconnlimit, rolvaliduntil, rolpassword, rolname), NULL
  FROM role

  UNION ALL
  SELECT 'membership',
    format('membership of role %s in %s', m.member::regrole, m.roleid::regrole), m.grantor::text,
    NULL, record_out(m)::text,
    format('DELETE FROM pg_auth_members WHERE roleid = %s AND member = %s AND grantor = %s',
      m.roleid, m.member, m.grantor),
    format('DELETE FROM pg_auth_members WHERE roleid = %s AND member = %s AND grantor = %s; '
      'INSERT INTO pg_auth_members '
      'SELECT * FROM jsonb_populate_record(NULL::pg_auth_members, %4$L)', m.roleid, m.member,
      m.grantor, to_jsonb(m)), NULL
  FROM pg_auth_members m WHERE m.member IN (SELECT oid FROM role)

  UNION ALL
  SELECT 'setting',
    CASE WHEN s.setrole <> 0 THEN 'setting of role ' || s.setrole::regrole
      ELSE 'setting of database ' || d.datname END,
    concat_ws(' ', d.datname, s.setrole), NULL, s.setconfig::text,
    format('DELETE FROM pg_db_role_setting WHERE setdatabase = %s AND setrole = %s',
      s.setdatabase, s.setrole),
    format('DELETE FROM pg_db_role_setting WHERE setdatabase = %s AND setrole = %s; '
      'INSERT INTO pg_db_role_setting '
      'SELECT * FROM jsonb_populate_record(NULL::pg_db_role_setting, %3$L)', s.setdatabase,
      s.setrole, to_jsonb(s)), NULL
  FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase
  WHERE NOT $1 OR d.datname = current_database() OR s.setrole IN (SELECT oid FROM role)

  UNION ALL
  SELECT 'database', 'database ' || datname, '', NULL,
    concat_ws(' ', datdba::regrole, datistemplate, datallowconn, datconnlimit, dattablespace),
    format('DROP DATABASE IF EXISTS %I WITH (FORCE)', datname),
    format('UPDATE pg_database SET datdba = %s, datistemplate = %L, datallowconn = %L, '
      'datconnlimit = %L WHERE datname = %L', datdba, datistemplate, datallowconn, datconnlimit,
      datname), NULL
  FROM pg_database WHERE datname = current_database() OR NOT $1

  UNION ALL
  SELECT 'prepared', 'prepared transaction', gid, NULL, transaction::text,
    format('ROLLBACK PREPARED %L', gid), NULL, NULL
  FROM pg_prepared_xacts WHERE database = current_database()

  UNION ALL
  SELECT 'tablespace', 'tablespace ' || spcname, '', NULL,
    concat_ws(' ', spcowner::regrole, spcacl, spcoptions),
    format('DROP TABLESPACE IF EXISTS %I', spcname), NULL, NULL
  FROM pg_tablespace WHERE NOT $1

  UNION ALL
  SELECT 'slot', 'replication slot ' || slot_name, '', NULL, slot_type,
    format('SELECT pg_drop_replication_slot(%L)', slot_name), NULL, NULL
  FROM pg_replication_slots WHERE NOT $1

  UNION ALL
  SELECT 'configuration', 'configuration of the server', '', NULL,
    pg_read_file('postgresql.auto.conf', 0, 1000000, true), NULL, 'ALTER SYSTEM RESET ALL', NULL
  WHERE NOT $1

  UNION ALL
  SELECT 'temporary', 'temporary relation ' || c.relname, c.relnamespace::regnamespace::text, NULL,
    c.oid::text, NULL, NULL, NULL
  FROM pg_class c WHERE c.relpersistence = 't' AND c.relkind IN ('r', 'p', 'v', 'S', 'm', 'f')
    AND c.relnamespace::regnamespace::text ~ '^pg_temp_'

  UNION ALL
  SELECT 'file', format('file of %s %s',
      CASE relkind WHEN 'i' THEN 'index' WHEN 'm' THEN 'materialized view' ELSE 'table' END, words),
    '', coalesce(b.parent, 'relation ' || words), relfilenode::text, NULL, NULL, NULL
  FROM rel LEFT JOIN belongs b ON b.oid = rel.oid WHERE relkind IN ('r', 'i', 'm')

  UNION ALL
  SELECT 'statistics', 'statistics of ' || words, '', 'relation ' || words,
    concat_ws(' ', CASE WHEN $2 THEN pg_stat_get_vacuum_count(rel.oid) END,
      (SELECT sum(s.xmin::text::bigint) FROM pg_statistic s WHERE s.starelid = rel.oid)),
    NULL, NULL, NULL
  FROM rel WHERE relkind IN ('r', 'm') AND NOT $1

  UNION ALL
  SELECT 'system', 'catalogue ' || name, '', NULL, digest, NULL, NULL, NULL
  FROM (
    SELECT 'pg_proc' AS name, concat(count(*), ' ', sum(xmin::text::bigint)) AS digest
    FROM pg_proc WHERE oid < 16384
    UNION ALL SELECT 'pg_class', concat(count(*), ' ', sum(xmin::text::bigint))
    FROM pg_class WHERE oid < 16384
    UNION ALL SELECT 'pg_type', concat(count(*), ' ', sum(xmin::text::bigint))
    FROM pg_type WHERE oid < 16384
    UNION ALL SELECT 'pg_operator', concat(count(*), ' ', sum(xmin::text::bigint))
    FROM pg_operator WHERE oid < 16384
    UNION ALL SELECT 'pg_cast', concat(count(*), ' ', sum(xmin::text::bigint))
    FROM pg_cast WHERE oid < 16384
  ) x WHERE NOT $1
) x
LIMIT 20000
