-- Sealed indexes, built beside living agents; see sealed.py. What cannot take parameters
-- is written by the server, which knows how to quote: each `write_` returns a statement.

-- :name lock_indexing
-- One run at a time; ends with the transaction, so with the process as well.
SELECT pg_try_advisory_xact_lock(hashtextextended('hermes-pgmemory index', 0));

-- :name index_columns
-- The type and the length of the vectors of each table, in a column that has the name.
SELECT relname::text, format_type(atttypid, NULL), atttypmod
  FROM pg_class
  JOIN pg_attribute ON attrelid = pg_class.oid
 WHERE pg_class.oid IN ('memory_entries'::regclass, 'conversations'::regclass)
   AND attname = %(column)s
   AND NOT attisdropped
 ORDER BY relname DESC;

-- :name index_list
-- Every index of ours over a column, complete or not, with its size in bytes.
SELECT tables.relname::text AS table,
       pg_class.relname::text AS name,
       indisvalid AS valid,
       pg_relation_size(indexrelid) AS bytes
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid
  JOIN pg_class AS tables ON tables.oid = indrelid
  JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
 WHERE indrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
   AND attname = %(column)s
   AND starts_with(pg_class.relname, 'pgmemory_sealed_')
 ORDER BY pg_class.relname;

-- :name index_themes_entries
-- How many vectors each theme has, and its last row that has one.
SELECT agent_identity, count(*), max(id)
  FROM memory_entries
 WHERE embedding IS NOT NULL
 GROUP BY agent_identity
 ORDER BY agent_identity;

-- :name index_themes_turns
SELECT agent_identity, count(*), max(id)
  FROM conversations
 WHERE embedding IS NOT NULL
 GROUP BY agent_identity
 ORDER BY agent_identity;

-- :name index_tail_entries
-- Vectors of a theme, or of all, behind a watermark; up to a number, where one is given.
SELECT count(*)
  FROM (SELECT
          FROM memory_entries
         WHERE embedding IS NOT NULL
           AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s)
           AND id > %(watermark)s
         LIMIT %(most)s) AS counted;

-- :name index_tail_turns
SELECT count(*)
  FROM (SELECT
          FROM conversations
         WHERE embedding IS NOT NULL
           AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s)
           AND id > %(watermark)s
         LIMIT %(most)s) AS counted;

-- :name index_resources
-- What a build may use on this server: memory in kB, and workers.
SELECT (SELECT setting::bigint FROM pg_settings WHERE name = 'maintenance_work_mem'),
       current_setting('max_parallel_workers')::int;

-- :name begin_build
-- For this session, which nobody else uses; `end_build` takes it back. A build whose client has died ends.
SELECT set_config('maintenance_work_mem', %(memory)s, false),
       set_config('max_parallel_maintenance_workers', %(workers)s, false),
       set_config('client_connection_check_interval', '2s', false);

-- :name end_build
SELECT set_config(name, reset_val, false)
  FROM pg_settings
 WHERE name IN ('maintenance_work_mem', 'max_parallel_maintenance_workers',
                'client_connection_check_interval');

-- :name write_build
SELECT format('CREATE INDEX CONCURRENTLY %%I ON %%I USING hnsw (%%I %%I)'
              ' WITH (m = 16, ef_construction = 64) WHERE %%sid <= %%s',
              %(name)s::text, %(table)s::text,
              %(column)s::text, %(operators)s::text,
              CASE WHEN %(theme)s::text IS NULL THEN ''
                   ELSE format('agent_identity = %%L AND ', %(theme)s) END,
              %(watermark)s::bigint);

-- :name write_drop
SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %%s.%%I',
              relnamespace::regnamespace, %(name)s::text)
  FROM pg_class
 WHERE oid = 'memory_entries'::regclass;

-- :name index_progress
-- How far the build of a session is: its phase, and rows done.
SELECT phase, tuples_done FROM pg_stat_progress_create_index WHERE pid = %(pid)s;
