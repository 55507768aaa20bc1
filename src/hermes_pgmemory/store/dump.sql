-- What a backup must know of a database, and how one is made ready to take one.

-- :name begin_snapshot
-- For this transaction: all it reads is of one moment.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;

-- :name export_snapshot
-- That moment's name for pg_dump, as long as this transaction lasts.
SELECT pg_export_snapshot();

-- :name our_objects
-- Our tables and view as they are called here, from anywhere.
SELECT format('%I.%I', nspname, relname)
  FROM unnest(ARRAY['memory_migrations', 'memory_settings', 'memory_models',
                    'memory_journal_positions', 'memory_entries', 'conversations',
                    'memory_agents', 'memory_agent_edges', 'memory_maintenance_log',
                    'memory_entry_history', 'memory_forgotten',
                    'v_agent_memory']) WITH ORDINALITY AS ours (name, place)
  JOIN pg_class ON pg_class.oid = to_regclass(name)
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 ORDER BY place;

-- :name our_triggers
-- Triggers are there only while vectors are on the move.
SELECT count(*)
  FROM pg_trigger
 WHERE NOT tgisinternal
   AND tgrelid IN (to_regclass('memory_entries'), to_regclass('conversations'));

-- :name count_memory_entries
SELECT count(*) FROM memory_entries;

-- :name count_conversations
SELECT count(*) FROM conversations;

-- :name our_counts
-- How many rows each table holds.
SELECT (SELECT count(*) FROM memory_entries) AS memory_entries,
       (SELECT count(*) FROM conversations) AS conversations,
       (SELECT count(*) FROM memory_agents) AS memory_agents,
       (SELECT count(*) FROM memory_agent_edges) AS memory_agent_edges,
       (SELECT count(*) FROM memory_entry_history) AS memory_entry_history,
       (SELECT count(*) FROM memory_forgotten) AS memory_forgotten,
       (SELECT count(*) FROM memory_journal_positions) AS memory_journal_positions,
       (SELECT count(*) FROM memory_models) AS memory_models,
       (SELECT count(*) FROM memory_settings) AS memory_settings,
       (SELECT count(*) FROM memory_migrations) AS memory_migrations,
       (SELECT count(*) FROM memory_maintenance_log) AS memory_maintenance_log;

-- :name target_facts
-- What a restore must know of the database that it goes into.
SELECT current_database()::text AS database,
       current_setting('server_version_num')::integer AS version,
       EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') AS has_extension;

-- :name stray_scratch
-- Copies that a killed verification left behind: nobody is in it, nor holds its lock,
-- from whichever database.
SELECT datname
  FROM pg_database
 WHERE datname ~ '^pgmemory_verify_[0-9a-f_]+$'
   AND pg_has_role(datdba, 'USAGE')
   AND NOT EXISTS (SELECT
                     FROM pg_stat_activity AS living
                    WHERE living.datname = pg_database.datname)
   AND NOT EXISTS (SELECT
                     FROM pg_locks
                    WHERE locktype = 'advisory'
                      AND objsubid = 1
                      AND (classid::bigint << 32 | objid::bigint)
                          = hashtextextended(pg_database.datname, 0));

-- :name hold_scratch
-- Keep a copy from being taken for one that was left behind. Ends with the transaction,
-- so with the process as well; a pooler leaves it its connection that long.
SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0));

-- :name may_create_databases
SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user;

-- :name analyze_ours
ANALYZE memory_entries, conversations, memory_agents, memory_agent_edges;
