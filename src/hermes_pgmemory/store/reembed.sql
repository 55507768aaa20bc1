-- From one embedding model to another beside living agents. A second pair of columns,
-- embedding_next and model_id_next, is filled batch by batch while everybody goes on with
-- the first; then the pairs change places, in one transaction with the active model. The
-- catalog and memory_settings say how far it came: whoever runs it again goes on.

-- :name reembed_state
-- How far it is: one row.
SELECT (SELECT count(*) FROM pg_attribute
         WHERE attrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
           AND attname = 'embedding_next') = 2,
       EXISTS (SELECT FROM pg_attribute
                WHERE attrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
                  AND attname = 'embedding_old'),
       EXISTS (SELECT FROM pg_attribute
                WHERE attrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
                  AND attname = 'embedding_half');

-- :name reembed_models
-- The model in use, and the one it goes to.
SELECT key, name, dimension, query_prefix, document_prefix
  FROM memory_settings
  JOIN memory_models ON memory_models.id = value::smallint
 WHERE key IN ('active_model_id', 'next_model_id');

-- :name reembed_total
-- How many rows have or want a vector, by table.
SELECT (SELECT count(*) FROM memory_entries WHERE retired_at IS NULL),
       (SELECT count(*) FROM conversations WHERE embed);

-- :name reembed_sample
-- Some texts, to try a model's speed on.
(SELECT content FROM conversations WHERE embed ORDER BY id DESC LIMIT %(limit)s)
 UNION ALL
(SELECT content FROM memory_entries ORDER BY id DESC LIMIT %(limit)s)
 LIMIT %(limit)s;

-- :name waiting_next_entries
SELECT count(*), coalesce(max(id), 0)
  FROM memory_entries
 WHERE embedding_next IS NULL
   AND retired_at IS NULL;

-- :name waiting_next_turns
SELECT count(*), coalesce(max(id), 0)
  FROM conversations
 WHERE embedding_next IS NULL
   AND embed;

-- :name unembedded_next_entries
SELECT id, agent_identity, content, ''
  FROM memory_entries
 WHERE embedding_next IS NULL
   AND retired_at IS NULL
   AND id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :name unembedded_next_turns
SELECT id, agent_identity, content, coalesce({before}, '')
  FROM conversations AS turn
 WHERE embedding_next IS NULL
   AND embed
   AND id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :fragment next_model
(SELECT value::smallint FROM memory_settings WHERE key = 'next_model_id')

-- :name set_next_entries
-- Give entries their next vectors, but for those whose content changed meanwhile.
WITH done AS (
    UPDATE memory_entries AS known
       SET embedding_next = given.embedding,
           model_id_next = {next_model}
      FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(content_hashes)s::bytea[],
                  %(embeddings)b::halfvec[])
               AS given (theme, id, content_hash, embedding)
     WHERE known.agent_identity = given.theme
       AND known.id = given.id
       AND known.embedding_next IS NULL
       AND known.content_hash = given.content_hash
    RETURNING 1
)
SELECT count(*) FROM done;

-- :name set_next_turns
WITH done AS (
    UPDATE conversations AS known
       SET embedding_next = given.embedding,
           model_id_next = {next_model},
           text_hash = given.text_hash
      FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(embeddings)b::halfvec[],
                  %(text_hashes)s::bytea[])
               AS given (theme, id, embedding, text_hash)
     WHERE known.agent_identity = given.theme
       AND known.id = given.id
       AND known.embedding_next IS NULL
    RETURNING 1
)
SELECT count(*) FROM done;

-- :name limit_reembed
-- For the steps below: the length of the new vectors, and a short wait for locks, because
-- the fleet queues behind us.
SELECT set_config('hermes_pgmemory.dimension', %(dimension)s::text, true),
       set_config('lock_timeout', '2s', true);

-- :name set_next_model
INSERT INTO memory_settings (key, value)
SELECT 'next_model_id', to_jsonb(id)
  FROM memory_models
 WHERE name = %(name)s AND dimension = %(dimension)s;

-- :name begin_reembed
-- Add the second pair of columns. Catalog only. A text that changes loses its next
-- vector, which then is made anew.
CREATE OR REPLACE FUNCTION memory_reembed_next() RETURNS trigger
    LANGUAGE plpgsql AS $fn$
BEGIN
    NEW.embedding_next := NULL;
    NEW.model_id_next := NULL;
    RETURN NEW;
END
$fn$;
DO $do$
DECLARE
    target text;
BEGIN
    LOCK TABLE memory_entries, conversations IN ACCESS EXCLUSIVE MODE;
    FOREACH target IN ARRAY ARRAY['memory_entries', 'conversations'] LOOP
        EXECUTE format('ALTER TABLE %I ADD embedding_next halfvec(%s),'
                       ' ADD model_id_next smallint', target,
                       current_setting('hermes_pgmemory.dimension'));
        EXECUTE format('ALTER TABLE %I ALTER embedding_next SET STORAGE MAIN', target);
        EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK'
                       ' ((embedding_next IS NULL) = (model_id_next IS NULL)) NOT VALID',
                       target, target || '_next_has_model');
        EXECUTE format('CREATE TRIGGER memory_reembed_next BEFORE UPDATE OF content ON %I'
                       ' FOR EACH ROW WHEN (OLD.content IS DISTINCT FROM NEW.content)'
                       ' EXECUTE FUNCTION memory_reembed_next()', target);
    END LOOP;
END
$do$;

-- :name prove_next_entries
-- Look whether every row keeps the rule. Blocks nobody.
ALTER TABLE memory_entries VALIDATE CONSTRAINT memory_entries_next_has_model;

-- :name prove_next_turns
ALTER TABLE conversations VALIDATE CONSTRAINT conversations_next_has_model;

-- :name broken_next_indexes
-- Indexes that a killed run left unfinished.
SELECT relname::text
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid
 WHERE indrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
   AND relname IN ('ix_memory_entries_unembedded_next',
                   'ix_conversations_unembedded_next')
   AND NOT indisvalid;

-- :name drop_next_index_entries
DROP INDEX CONCURRENTLY IF EXISTS ix_memory_entries_unembedded_next;

-- :name drop_next_index_turns
DROP INDEX CONCURRENTLY IF EXISTS ix_conversations_unembedded_next;

-- :name create_next_index_entries
CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_memory_entries_unembedded_next
    ON memory_entries (id) WHERE embedding_next IS NULL;

-- :name create_next_index_turns
CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_conversations_unembedded_next
    ON conversations (id) WHERE embedding_next IS NULL AND embed;

-- :name switch_reembed
-- The pairs change places, their sealed indexes and the active model with them. Catalog
-- only. The old pair
-- stays, but forgets a text that changes.
CREATE OR REPLACE FUNCTION memory_reembed_old() RETURNS trigger
    LANGUAGE plpgsql AS $fn$
BEGIN
    NEW.embedding_old := NULL;
    NEW.model_id_old := NULL;
    RETURN NEW;
END
$fn$;
DO $do$
DECLARE
    target text;
    sealed text;
BEGIN
    LOCK TABLE memory_entries, conversations IN ACCESS EXCLUSIVE MODE;
    FOREACH target IN ARRAY ARRAY['memory_entries', 'conversations'] LOOP
        EXECUTE format('DROP TRIGGER memory_reembed_next ON %I', target);
        FOR sealed IN
            SELECT relname
              FROM pg_index
              JOIN pg_class ON pg_class.oid = indexrelid
             WHERE indrelid = target::regclass
               AND starts_with(relname, 'pgmemory_sealed_')
             ORDER BY right(relname, 5) = '_next'
        LOOP
            IF right(sealed, 5) = '_next' THEN
                EXECUTE format('ALTER INDEX %I RENAME TO %I',
                               sealed, left(sealed, -5));
            ELSE
                EXECUTE format('DROP INDEX %I', sealed);
            END IF;
        END LOOP;
        EXECUTE format('ALTER TABLE %I RENAME embedding TO embedding_old', target);
        EXECUTE format('ALTER TABLE %I RENAME model_id TO model_id_old', target);
        EXECUTE format('ALTER TABLE %I RENAME embedding_next TO embedding', target);
        EXECUTE format('ALTER TABLE %I RENAME model_id_next TO model_id', target);
        EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', target,
                       target || '_vector_has_model', target || '_old_has_model');
        EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', target,
                       target || '_next_has_model', target || '_vector_has_model');
        EXECUTE format('DROP INDEX %I', 'ix_' || target || '_unembedded');
        EXECUTE format('ALTER INDEX %I RENAME TO %I',
                       'ix_' || target || '_unembedded_next',
                       'ix_' || target || '_unembedded');
        EXECUTE format('COMMENT ON COLUMN %I.embedding IS %L', target,
                       'NULL until embedded; `hermes-pgvector backfill` fills it');
        EXECUTE format('COMMENT ON COLUMN %I.model_id IS %L', target,
                       'memory_models.id; vectors of different models are never compared');
        EXECUTE format('COMMENT ON COLUMN %I.embedding_old IS %L', target,
                       'Of the model before; `hermes-pgvector reembed` can drop it');
        EXECUTE format('CREATE TRIGGER memory_reembed_old BEFORE UPDATE OF content ON %I'
                       ' FOR EACH ROW WHEN (OLD.content IS DISTINCT FROM NEW.content)'
                       ' EXECUTE FUNCTION memory_reembed_old()', target);
    END LOOP;
    UPDATE memory_settings
       SET value = (SELECT value FROM memory_settings WHERE key = 'next_model_id')
     WHERE key = 'active_model_id';
    DELETE FROM memory_settings WHERE key = 'next_model_id';
    DROP FUNCTION memory_reembed_next();
END
$do$;

-- :name abort_reembed
-- Take back what was begun. Catalog only; the indexes and constraints go along.
DO $do$
DECLARE
    target text;
BEGIN
    LOCK TABLE memory_entries, conversations IN ACCESS EXCLUSIVE MODE;
    FOREACH target IN ARRAY ARRAY['memory_entries', 'conversations'] LOOP
        EXECUTE format('DROP TRIGGER memory_reembed_next ON %I', target);
        EXECUTE format('ALTER TABLE %I DROP embedding_next, DROP model_id_next', target);
    END LOOP;
    DROP FUNCTION memory_reembed_next();
    DELETE FROM memory_models
     WHERE id = (SELECT value::smallint FROM memory_settings WHERE key = 'next_model_id')
       AND id > (SELECT value::smallint
                   FROM memory_settings
                  WHERE key = 'active_model_id');
    DELETE FROM memory_settings WHERE key = 'next_model_id';
END
$do$;

-- :name drop_old_vectors
-- Drop the pair that is not used any more. Catalog only.
DO $do$
DECLARE
    target text;
BEGIN
    LOCK TABLE memory_entries, conversations IN ACCESS EXCLUSIVE MODE;
    FOREACH target IN ARRAY ARRAY['memory_entries', 'conversations'] LOOP
        EXECUTE format('DROP TRIGGER memory_reembed_old ON %I', target);
        EXECUTE format('ALTER TABLE %I DROP embedding_old, DROP model_id_old', target);
    END LOOP;
    DROP FUNCTION memory_reembed_old();
END
$do$;

-- :name analyze_reembedded
ANALYZE memory_entries, conversations;
