-- Taking over a database of hermes-memory-pgvector, in one transaction that holds
-- ACCESS EXCLUSIVE locks on its tables. What is done here leaves the tables as the
-- migrations 0002 and 0003 would have made them; a test compares both.

-- :fragment raw
-- The identity before the original normalised it, where it noted one.
coalesce(metadata ->> 'raw_identity', '')

-- :fragment blank
content !~ '\S'

-- :fragment missing_column
-- Of what is `needed`, a column that its relation lacks.
string_to_table(columns, ' ') AS name
            WHERE NOT EXISTS (SELECT
                                FROM pg_attribute
                               WHERE attrelid = to_regclass(relation)
                                 AND attname = name
                                 AND NOT attisdropped)

-- :name is_original
-- Whether these are the original's tables: its columns, and none of ours.
SELECT NOT EXISTS (
           SELECT
             FROM (VALUES ('memory_entries', 'id agent_identity target content embedding'
                                             ' created_at updated_at metadata'),
                          ('conversations', 'id session_id agent_identity role content'
                                            ' ts embedding metadata'))
                      AS needed (relation, columns),
                  {missing_column})
   AND to_regtype('vector') IS NOT NULL
   AND (SELECT count(*) = 2
          FROM pg_attribute
         WHERE attrelid IN (to_regclass('memory_entries'), to_regclass('conversations'))
           AND attname = 'embedding'
           AND atttypid = to_regtype('vector'))
   AND NOT EXISTS (SELECT
                     FROM pg_attribute
                    WHERE attrelid = to_regclass('memory_entries')
                      AND attname = 'content_hash');

-- :name original_dimensions
-- The lengths of the vectors that both tables hold; -1 where a column does not say.
SELECT DISTINCT atttypmod
  FROM pg_attribute
 WHERE attrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
   AND attname = 'embedding';

-- :name lock_original
-- Rewriting takes as long as it takes; what waits for us is the fleet, not us.
LOCK TABLE memory_entries, conversations IN ACCESS EXCLUSIVE MODE;
SELECT set_config('statement_timeout', '0', true),
       set_config('client_min_messages', 'warning', true);

-- :name set_aside
-- Keep the small tables' rows while 0003 makes the tables anew. Early releases had
-- none of them, and a migration that failed half-way may have left only some.
CREATE TEMP TABLE adopted_agents (
    agent_identity text, first_seen timestamptz, last_seen timestamptz, attrs jsonb
) ON COMMIT DROP;
CREATE TEMP TABLE adopted_edges (
    id bigint, parent_identity text, child_identity text, parent_session_id text,
    child_session_id text, kind text, ts timestamptz, attrs jsonb
) ON COMMIT DROP;
CREATE TEMP TABLE adopted_log (
    id bigint, ts timestamptz, operation text, target_table text,
    identity_pattern text, affected_count bigint, dropped_dupes bigint,
    dry_run boolean, details jsonb
) ON COMMIT DROP;
DO $do$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT original, (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
                            FROM pg_attribute
                           WHERE attrelid = copy::regclass AND attnum > 0) AS columns,
               copy
          FROM (VALUES ('memory_agents', 'adopted_agents'),
                       ('memory_agent_edges', 'adopted_edges'),
                       ('memory_maintenance_log', 'adopted_log')) AS t (original, copy)
         WHERE to_regclass(original) IS NOT NULL LOOP
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', kept.original);
        EXECUTE format('INSERT INTO %I SELECT %s FROM %I',
                       kept.copy, kept.columns, kept.original);
    END LOOP;
END
$do$;
DROP VIEW IF EXISTS v_agent_memory;
DROP TABLE IF EXISTS memory_agents, memory_agent_edges, memory_maintenance_log;

-- :name adopted_names
-- Every identity in use, with the raw one of its rows.
SELECT agent_identity, {raw} FROM memory_entries
 UNION
SELECT agent_identity, {raw} FROM conversations
 UNION
SELECT agent_identity, '' FROM adopted_agents
 UNION
SELECT parent_identity, '' FROM adopted_edges WHERE parent_identity IS NOT NULL
 UNION
SELECT child_identity, '' FROM adopted_edges WHERE child_identity IS NOT NULL
 UNION
SELECT '', '';

-- :name create_adopted_themes
-- What becomes of each identity: its theme, and whose its rows are.
CREATE TEMP TABLE adopted_themes (
    old     text,
    raw     text,
    theme   text NOT NULL,
    kind    text NOT NULL,
    subject text,
    hidden  boolean NOT NULL,
    private boolean NOT NULL,
    PRIMARY KEY (old, raw)
) ON COMMIT DROP;

-- :name fill_adopted_themes
INSERT INTO adopted_themes (old, raw, theme, kind, subject, hidden, private)
SELECT *
  FROM unnest(%(olds)s::text[], %(raws)s::text[], %(themes)s::text[], %(kinds)s::text[],
              %(subjects)s::text[], %(hidden)s::boolean[], %(private)s::boolean[]);

-- :name adopted_counts
-- What there is, before anything is changed: one row for each table.
WITH rows AS (
    SELECT 1 AS place, agent_identity, {raw} AS raw, embedding IS NULL AS bare,
           {blank} AS blank
      FROM memory_entries
     UNION ALL
    SELECT 2, agent_identity, {raw}, embedding IS NULL, {blank} FROM conversations
)
SELECT count(rows),
       count(*) FILTER (WHERE bare),
       count(*) FILTER (WHERE blank),
       count(*) FILTER (WHERE theme <> old),
       count(*) FILTER (WHERE subject IS NOT NULL AND NOT hidden),
       count(*) FILTER (WHERE hidden)
  FROM (VALUES (1), (2)) AS tables (place)
  LEFT JOIN rows USING (place)
  LEFT JOIN adopted_themes AS known
         ON known.old = rows.agent_identity AND known.raw = rows.raw
 GROUP BY place
 ORDER BY place;

-- :name strip_original
-- Take off what would make rewriting every row slow, or is in the way. An index over
-- all vectors also makes every write slow, and starves small themes when searched. The
-- ids go on where they are; their old sequence may have any name.
DO $do$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT indexrelid::regclass AS name
          FROM pg_index
          JOIN pg_class ON pg_class.oid = indexrelid
          JOIN pg_am ON pg_am.oid = relam
         WHERE indrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
           AND (amname IN ('hnsw', 'ivfflat')
                OR relname IN ('ix_memory_entries_agent_target',
                               'ix_memory_entries_content_fts',
                               'memory_entries_unique_md5',
                               'ix_conversations_session_ts',
                               'ix_conversations_agent_ts',
                               'ix_conversations_content_fts')) LOOP
        EXECUTE format('DROP INDEX %s', found.name);
    END LOOP;
    FOR found IN
        SELECT name,
               pg_get_serial_sequence(name, 'id') AS sequence
          FROM unnest(ARRAY['memory_entries', 'conversations']) AS name LOOP
        EXECUTE format('ALTER TABLE %I ALTER id DROP DEFAULT', found.name);
        IF found.sequence IS NOT NULL THEN
            EXECUTE format('DROP SEQUENCE %s', found.sequence::regclass);
        END IF;
    END LOOP;
END
$do$;
ALTER TABLE memory_entries
    DROP CONSTRAINT IF EXISTS memory_entries_unique,
    DROP CONSTRAINT IF EXISTS memory_entries_pkey,
    ALTER agent_identity DROP DEFAULT,
    ADD content_hash bytea,
    ADD model_id smallint,
    ADD subject text,
    ADD source text,
    ADD retired_at timestamptz,
    ADD tsv tsvector,
    SET (toast_tuple_target = 8160);
ALTER TABLE memory_entries ALTER embedding SET STORAGE MAIN;
ALTER TABLE conversations
    DROP CONSTRAINT IF EXISTS conversations_pkey,
    ALTER agent_identity DROP DEFAULT,
    ADD COLUMN IF NOT EXISTS parent_session_id text,
    ADD turn_key bytea,
    ADD embed boolean NOT NULL DEFAULT true,
    ADD model_id smallint,
    ADD subject text,
    ADD tsv tsvector,
    SET (toast_tuple_target = 8160);
ALTER TABLE conversations ALTER embedding SET STORAGE MAIN;

-- :name adopt_entries
UPDATE memory_entries AS entry
   SET agent_identity = known.theme,
       content_hash = sha256(convert_to(content, 'UTF8')),
       model_id = CASE WHEN embedding IS NOT NULL THEN %(model_id)s::smallint END,
       subject = known.subject,
       metadata = CASE WHEN known.private THEN metadata - 'raw_identity'
                       ELSE metadata END,
       tsv = {lexemes}
  FROM adopted_themes AS known
 WHERE known.old = entry.agent_identity
   AND known.raw = {raw};

-- :name merge_adopted_entries
-- Entries that have become one under our key: one with a vector stays, else the
-- oldest; it takes over the times. Returns how many went, and how many of these had
-- no vector.
WITH ranked AS (
    SELECT id,
           first_value(id) OVER same AS kept,
           row_number() OVER same AS place
      FROM memory_entries
    WINDOW same AS (PARTITION BY agent_identity, target, content_hash, subject
                        ORDER BY embedding IS NULL, id)
), gone AS (
    DELETE FROM memory_entries AS entry
     USING ranked
     WHERE entry.id = ranked.id
       AND place > 1
    RETURNING kept, created_at, updated_at, embedding IS NULL AS bare
), aged AS (
    UPDATE memory_entries AS entry
       SET created_at = least(entry.created_at, twins.created_at),
           updated_at = greatest(entry.updated_at, twins.updated_at)
      FROM (SELECT kept, min(created_at) AS created_at, max(updated_at) AS updated_at
              FROM gone
             GROUP BY kept) AS twins
     WHERE entry.id = twins.kept
)
SELECT count(*), count(*) FILTER (WHERE bare) FROM gone;

-- :name adopt_turns
-- The key is the one that `store.turns.turn_key` gives: a turn that is told again
-- after the take-over is the same turn.
WITH said AS (
    SELECT id, known.theme, known.subject, known.private,
           row_number() OVER (PARTITION BY known.theme, session_id, role, known.subject,
                                           sha256(convert_to(content, 'UTF8'))
                                  ORDER BY ts, id) AS ordinal
      FROM conversations
      JOIN adopted_themes AS known
        ON known.old = agent_identity AND known.raw = {raw}
)
UPDATE conversations AS turn
   SET agent_identity = said.theme,
       turn_key = sha256(convert_to(
           concat('[', to_json(role), ', ', to_json(content), ', ',
                  coalesce(to_json(said.subject)::text, 'null'), ', ', ordinal, ']'),
           'UTF8')),
       model_id = CASE WHEN embedding IS NOT NULL THEN %(model_id)s::smallint END,
       subject = said.subject,
       metadata = CASE WHEN said.private THEN metadata - 'raw_identity'
                       ELSE metadata END,
       tsv = {lexemes}
  FROM said
 WHERE turn.id = said.id;

-- :name seal_original
-- Keys, constraints, comments and indexes as migration 0002 gives them.
ALTER TABLE memory_entries
    ALTER id ADD GENERATED ALWAYS AS IDENTITY,
    ALTER content_hash SET NOT NULL,
    ALTER tsv SET NOT NULL,
    ADD PRIMARY KEY (agent_identity, id),
    ADD CONSTRAINT memory_entries_agent_identity_check CHECK (agent_identity <> ''),
    ADD CONSTRAINT memory_entries_unique
        UNIQUE NULLS NOT DISTINCT (agent_identity, target, content_hash, subject),
    ADD CONSTRAINT memory_entries_vector_has_model
        CHECK ((embedding IS NULL) = (model_id IS NULL));
SELECT setval(pg_get_serial_sequence('memory_entries', 'id'), max(id))
  FROM memory_entries HAVING max(id) IS NOT NULL;

COMMENT ON COLUMN memory_entries.agent_identity IS
    'The theme: which agent, or which governed bucket, remembers this';
COMMENT ON COLUMN memory_entries.target IS
    'memory mirrors MEMORY.md, user mirrors USER.md';
COMMENT ON COLUMN memory_entries.content_hash IS
    'sha256 of content in UTF-8: a key over the text itself could not exceed 2.7 kB';
COMMENT ON COLUMN memory_entries.embedding IS
    'NULL until embedded; `hermes-pgvector backfill` fills it';
COMMENT ON COLUMN memory_entries.model_id IS
    'memory_models.id; vectors of different models are never compared';
COMMENT ON COLUMN memory_entries.subject IS
    'Keyed hash of the contact whose private row this is; NULL belongs to nobody';
COMMENT ON COLUMN memory_entries.source IS
    'Hash of the host and path of the file that this row mirrors';
COMMENT ON COLUMN memory_entries.retired_at IS
    'Set when no file holds the entry any more; recall skips such rows';
COMMENT ON COLUMN memory_entries.tsv IS
    'Lexemes of the first 100,000 characters, by memory_settings.text_search_config';

CREATE INDEX ix_memory_entries_agent_target
    ON memory_entries (agent_identity, target, updated_at);
CREATE INDEX ix_memory_entries_tsv
    ON memory_entries USING gin (tsv);
CREATE INDEX ix_memory_entries_unembedded
    ON memory_entries (id) WHERE embedding IS NULL;
CREATE INDEX ix_memory_entries_source
    ON memory_entries (source) WHERE source IS NOT NULL;

ALTER TABLE conversations
    ALTER id ADD GENERATED ALWAYS AS IDENTITY,
    ALTER turn_key SET NOT NULL,
    ALTER tsv SET NOT NULL,
    ADD PRIMARY KEY (agent_identity, id),
    ADD CONSTRAINT conversations_agent_identity_check CHECK (agent_identity <> ''),
    ADD CONSTRAINT conversations_unique UNIQUE (agent_identity, session_id, turn_key),
    ADD CONSTRAINT conversations_vector_has_model
        CHECK ((embedding IS NULL) = (model_id IS NULL));
SELECT setval(pg_get_serial_sequence('conversations', 'id'), max(id))
  FROM conversations HAVING max(id) IS NOT NULL;

COMMENT ON COLUMN conversations.agent_identity IS
    'The theme: which agent, or which governed bucket, heard this';
COMMENT ON COLUMN conversations.parent_session_id IS
    'The session that delegated to this one';
COMMENT ON COLUMN conversations.ts IS
    'When it was said, not when it was stored';
COMMENT ON COLUMN conversations.turn_key IS
    'sha256 of role, content, subject and the how-many-eth time it was said in '
    'the session: a turn reported twice is one, a sentence said twice is two';
COMMENT ON COLUMN conversations.embed IS
    'false: found by its words only, backfill leaves it alone';
COMMENT ON COLUMN conversations.embedding IS
    'NULL until embedded; `hermes-pgvector backfill` fills it';
COMMENT ON COLUMN conversations.model_id IS
    'memory_models.id; vectors of different models are never compared';
COMMENT ON COLUMN conversations.subject IS
    'Keyed hash of the contact whose private row this is; NULL belongs to nobody';
COMMENT ON COLUMN conversations.tsv IS
    'Lexemes of the first 100,000 characters, by memory_settings.text_search_config';

CREATE INDEX ix_conversations_agent_ts
    ON conversations (agent_identity, ts);
CREATE INDEX ix_conversations_session_ts
    ON conversations (agent_identity, session_id, ts);
CREATE INDEX ix_conversations_tsv
    ON conversations USING gin (tsv);
CREATE INDEX ix_conversations_unembedded
    ON conversations (id) WHERE embedding IS NULL AND embed;

ANALYZE memory_entries, conversations;

-- :name adopt_agents
INSERT INTO memory_agents (agent_identity, kind, first_seen, last_seen, attrs)
SELECT theme, min(known.kind), min(first_seen), max(last_seen),
       (array_agg(attrs ORDER BY last_seen DESC))[1]
  FROM adopted_agents
  JOIN adopted_themes AS known ON old = agent_identity AND raw = ''
 GROUP BY theme;

-- :name adopt_edges
INSERT INTO memory_agent_edges
       (id, parent_identity, child_identity, parent_session_id, child_session_id, kind,
        task, task_hash, subject, ts, attrs)
       OVERRIDING SYSTEM VALUE
SELECT id, parent.theme, child.theme, coalesce(parent_session_id, ''),
       coalesce(child_session_id, ''), edge.kind, task, sha256(convert_to(task, 'UTF8')),
       parent.subject, ts, attrs - 'task'
  FROM adopted_edges AS edge
 CROSS JOIN LATERAL (SELECT coalesce(attrs ->> 'task', '') AS task) AS given
  JOIN adopted_themes AS parent
    ON parent.old = coalesce(parent_identity, '') AND parent.raw = ''
  LEFT JOIN adopted_themes AS child ON child.old = child_identity AND child.raw = ''
 ORDER BY id
    ON CONFLICT ON CONSTRAINT memory_agent_edges_unique DO NOTHING;

-- :name adopted_patterns
SELECT DISTINCT identity_pattern FROM adopted_log WHERE identity_pattern IS NOT NULL;

-- :name adopt_log
-- The log, without the keys of contacts that were typed as patterns.
INSERT INTO memory_maintenance_log
       (id, ts, operation, target_table, identity_pattern, affected_count,
        dropped_dupes, dry_run, details)
       OVERRIDING SYSTEM VALUE
SELECT id, ts, operation, target_table,
       CASE WHEN private THEN %(label)s ELSE identity_pattern END,
       affected_count, dropped_dupes, dry_run,
       CASE WHEN private THEN '{}' ELSE details END
  FROM adopted_log
 CROSS JOIN LATERAL (SELECT coalesce(identity_pattern = ANY (%(private)s::text[]),
                                     false) AS private) AS typed
 ORDER BY id;

-- :name continue_ids
SELECT setval(pg_get_serial_sequence('memory_agent_edges', 'id'), max(id))
  FROM memory_agent_edges HAVING max(id) IS NOT NULL;
SELECT setval(pg_get_serial_sequence('memory_maintenance_log', 'id'), max(id))
  FROM memory_maintenance_log HAVING max(id) IS NOT NULL;

-- :name writing_roles
-- Who could write memories so far, the owner among them.
SELECT DISTINCT rolname::text
  FROM pg_class
 CROSS JOIN LATERAL aclexplode(coalesce(relacl, acldefault('r', relowner))) AS granted
  JOIN pg_roles ON pg_roles.oid = granted.grantee
 WHERE pg_class.oid IN ('memory_entries'::regclass, 'conversations'::regclass)
   AND privilege_type = 'INSERT'
   AND rolname <> current_user
 ORDER BY 1;
