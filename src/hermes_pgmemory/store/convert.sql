-- From vector to halfvec beside living agents. A second column is filled part by part,
-- kept equal by a trigger meanwhile, and in the end takes the first one's place. The
-- catalog says how far it came: whoever runs it again goes on from there.

-- :name lock_conversion
-- One conversion at a time; ends with the transaction, so with the process as well.
SELECT pg_try_advisory_xact_lock(hashtextextended('hermes-pgmemory convert', 0));

-- :name claim_connection
-- For a connection that nobody else will use: steps that take as long as they take.
SELECT pg_backend_pid()
  FROM set_config('statement_timeout', '0', false) AS each,
       set_config(CASE WHEN current_setting('server_version_num')::int >= 170000
                       THEN 'transaction_timeout'
                       ELSE 'statement_timeout' END,
                  '0', false) AS whole;

-- :name conversion_state
-- How far each table is: the type of its vectors, and whether a conversion has begun.
SELECT relname::text,
       format_type(atttypid, NULL),
       EXISTS (SELECT
                 FROM pg_attribute AS half
                WHERE half.attrelid = pg_class.oid
                  AND half.attname = 'embedding_half')
  FROM pg_class
  JOIN pg_attribute ON attrelid = pg_class.oid
 WHERE pg_class.oid IN ('memory_entries'::regclass, 'conversations'::regclass)
   AND attname = 'embedding'
 ORDER BY relname DESC;

-- :fragment unfit
-- A 16-bit float ends at 65,504; a shorter vector has no component beyond.
count(*) FILTER (WHERE vector_norm(embedding::vector) > 65504)

-- :name survey_entries
SELECT count(*), {unfit} FROM memory_entries WHERE embedding IS NOT NULL;

-- :name survey_turns
SELECT count(*), {unfit} FROM conversations WHERE embedding IS NOT NULL;

-- :name survey_begun_entries
SELECT count(*), {unfit} FROM memory_entries
 WHERE embedding IS NOT NULL AND embedding_half IS NULL;

-- :name survey_begun_turns
SELECT count(*), {unfit} FROM conversations
 WHERE embedding IS NOT NULL AND embedding_half IS NULL;

-- :name name_converted
-- For the blocks below, which cannot take a parameter; and how long they may queue
-- for a lock, because the fleet queues behind them.
SELECT set_config('hermes_pgmemory.table', %(table)s, true),
       set_config('lock_timeout', '2s', true);

-- :name begin_conversion
-- Add the column, and have every write fill it from now on. Catalog only.
CREATE OR REPLACE FUNCTION memory_convert_vector() RETURNS trigger
    LANGUAGE plpgsql AS $fn$
BEGIN
    NEW.embedding_half := NEW.embedding;
    RETURN NEW;
END
$fn$;
DO $do$
DECLARE
    target text := current_setting('hermes_pgmemory.table');
BEGIN
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', target);
    EXECUTE format('ALTER TABLE %I ADD COLUMN embedding_half %s', target,
                   (SELECT replace(format_type(atttypid, atttypmod), 'vector', 'halfvec')
                      FROM pg_attribute
                     WHERE attrelid = target::regclass AND attname = 'embedding'));
    EXECUTE format('ALTER TABLE %I ALTER embedding_half SET STORAGE MAIN', target);
    EXECUTE format('CREATE TRIGGER memory_convert BEFORE INSERT OR UPDATE ON %I'
                   ' FOR EACH ROW EXECUTE FUNCTION memory_convert_vector()', target);
END
$do$;

-- :name convert_entries
-- Fill one part of one theme; says how many rows it looked at, how many it filled, and
-- the last one looked at.
WITH part AS (
    SELECT id, embedding IS NOT NULL AND embedding_half IS NULL AS waits
      FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND id > %(after_id)s
     ORDER BY id
     LIMIT %(limit)s
), done AS (
    UPDATE memory_entries
       SET embedding_half = embedding
     WHERE agent_identity = %(theme)s
       AND id = ANY (ARRAY(SELECT id FROM part WHERE waits))
    RETURNING 1
)
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM done),
       0,
       NULL::timestamptz,
       (SELECT max(id) FROM part);

-- :name convert_turns
WITH part AS (
    SELECT id, embedding IS NOT NULL AND embedding_half IS NULL AS waits
      FROM conversations
     WHERE agent_identity = %(theme)s
       AND id > %(after_id)s
     ORDER BY id
     LIMIT %(limit)s
), done AS (
    UPDATE conversations
       SET embedding_half = embedding
     WHERE agent_identity = %(theme)s
       AND id = ANY (ARRAY(SELECT id FROM part WHERE waits))
    RETURNING 1
)
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM done),
       0,
       NULL::timestamptz,
       (SELECT max(id) FROM part);

-- :name guard_conversion
-- Hold what the second column must keep, for every row written from now on.
DO $do$
DECLARE
    target text := current_setting('hermes_pgmemory.table');
    rule text := target || '_half_has_model';
BEGIN
    IF NOT EXISTS (SELECT
                     FROM pg_constraint
                    WHERE conrelid = target::regclass AND conname = rule) THEN
        EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK'
                       ' ((embedding_half IS NULL) = (model_id IS NULL)) NOT VALID',
                       target, rule);
    END IF;
END
$do$;

-- :name prove_conversion
-- Look whether every row keeps it: then no vector is missing. Blocks nobody.
DO $do$
DECLARE
    target text := current_setting('hermes_pgmemory.table');
BEGIN
    EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT %I',
                   target, target || '_half_has_model');
END
$do$;

-- :name broken_indexes
-- Indexes that a killed conversion left unfinished.
SELECT relname::text
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid
 WHERE indrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
   AND relname IN ('ix_memory_entries_unembedded_half',
                   'ix_conversations_unembedded_half')
   AND NOT indisvalid;

-- :name drop_index_entries
DROP INDEX CONCURRENTLY IF EXISTS ix_memory_entries_unembedded_half;

-- :name drop_index_turns
DROP INDEX CONCURRENTLY IF EXISTS ix_conversations_unembedded_half;

-- :name create_index_entries
CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_memory_entries_unembedded_half
    ON memory_entries (id) WHERE embedding_half IS NULL;

-- :name create_index_turns
CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_conversations_unembedded_half
    ON conversations (id) WHERE embedding_half IS NULL AND embed;

-- :name finish_conversion
-- Put the second column in the first one's place. Catalog only. With the old column go
-- its constraint and its indexes.
DO $do$
DECLARE
    target text := current_setting('hermes_pgmemory.table');
BEGIN
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', target);
    EXECUTE format('DROP TRIGGER memory_convert ON %I', target);
    EXECUTE format('ALTER TABLE %I DROP COLUMN embedding', target);
    EXECUTE format('ALTER TABLE %I RENAME embedding_half TO embedding', target);
    EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', target,
                   target || '_half_has_model', target || '_vector_has_model');
    EXECUTE format('ALTER INDEX %I RENAME TO %I', 'ix_' || target || '_unembedded_half',
                   'ix_' || target || '_unembedded');
    EXECUTE format('COMMENT ON COLUMN %I.embedding IS %L', target,
                   'NULL until embedded; `hermes-pgvector backfill` fills it');
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'memory_convert') THEN
        DROP FUNCTION IF EXISTS memory_convert_vector();
    END IF;
END
$do$;

-- :name analyze_converted
ANALYZE memory_entries, conversations;
