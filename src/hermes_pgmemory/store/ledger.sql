-- :name lock_ledger
-- Queue everyone who would migrate this database, but not for ever. A step over a large
-- table may take longer than the role's statements usually may.
SELECT set_config('lock_timeout', '120s', true),
       set_config('statement_timeout', '0', true),
       pg_advisory_xact_lock(hashtextextended('hermes-pgmemory migrate', 0));

-- :name limit_locks
-- From here on, wait for the fleet's own locks only briefly: it waits behind us.
SELECT set_config('lock_timeout', '10s', true);

-- :name has_ledger
-- Whether this database was ever migrated.
SELECT to_regclass('memory_migrations') IS NOT NULL;

-- :name create_ledger
CREATE TABLE memory_migrations (
    version    text PRIMARY KEY,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE memory_migrations IS
    'What `hermes-pgvector migrate` applied; checksum is the shipped file''s sha256';

-- :name read_ledger
-- What was applied, and what it said.
SELECT version, checksum FROM memory_migrations;

-- :name record_migration
INSERT INTO memory_migrations (version, checksum)
VALUES (%(version)s, %(checksum)s);

-- :name installed_extension
-- The version of pgvector in this database; no row without it.
SELECT extversion FROM pg_extension WHERE extname = 'vector';

-- :name create_extension
CREATE EXTENSION vector;

-- :name has_text_search_config
-- Whether this server knows a text search configuration.
SELECT EXISTS (SELECT
                 FROM pg_ts_config
                WHERE cfgname = %(config)s
                  AND pg_ts_config_is_visible(oid));

-- :name add_model
-- Record a model, once, and return its id.
INSERT INTO memory_models AS known (name, dimension, query_prefix, document_prefix)
VALUES (%(name)s, %(dimension)s, %(query_prefix)s, %(document_prefix)s)
    ON CONFLICT (name, dimension) DO UPDATE SET name = known.name
RETURNING id;

-- :name seed_setting
-- Set what was never set.
INSERT INTO memory_settings (key, value)
VALUES (%(key)s, %(value)s)
    ON CONFLICT (key) DO NOTHING;

-- :name facts
-- What an agent must know before it starts: one row. The model's columns are NULL
-- where none is active.
SELECT name, dimension, query_prefix, document_prefix,
       (SELECT value #>> '{}' FROM memory_settings WHERE key = 'text_search_config'),
       (SELECT value #>> '{}' FROM memory_settings WHERE key = 'subject_key'),
       current_setting('server_version_num')::integer,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector')
  FROM (SELECT value::smallint AS id FROM memory_settings WHERE key = 'active_model_id')
           AS active
 RIGHT JOIN (VALUES (1)) AS one (row) ON true
  LEFT JOIN memory_models USING (id);
