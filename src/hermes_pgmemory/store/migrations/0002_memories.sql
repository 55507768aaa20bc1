-- 0002 memories
--
-- Adds:    memory_entries, conversations
-- Why:     the mirror of MEMORY.md and USER.md, and the turns worth keeping, both
--          searchable by meaning and by words
-- Needs:   extension vector >= 0.7 (halfvec)
-- Locks:   none; creates new objects only
-- Runtime: instant
-- Undo:    DROP TABLE memory_entries, conversations;   (loses every memory)

CREATE TABLE memory_entries (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    agent_identity text NOT NULL CHECK (agent_identity <> ''),
    target         text NOT NULL CHECK (target IN ('memory', 'user')),
    content        text NOT NULL,
    content_hash   bytea NOT NULL,
    embedding      halfvec(:dimensions),
    model_id       smallint,
    subject        text,
    source         text,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    retired_at     timestamptz,
    metadata       jsonb NOT NULL DEFAULT '{}',
    tsv            tsvector NOT NULL,
    -- The theme comes first in every key, so that the tables can be distributed
    -- by it.
    PRIMARY KEY (agent_identity, id),
    CONSTRAINT memory_entries_unique
        UNIQUE NULLS NOT DISTINCT (agent_identity, target, content_hash, subject),
    CONSTRAINT memory_entries_vector_has_model
        CHECK ((embedding IS NULL) = (model_id IS NULL))
) WITH (toast_tuple_target = 8160);
ALTER TABLE memory_entries ALTER embedding SET STORAGE MAIN;

COMMENT ON COLUMN memory_entries.agent_identity IS
    'The theme: which agent, or which governed bucket, remembers this';
COMMENT ON COLUMN memory_entries.target IS
    'memory mirrors MEMORY.md, user mirrors USER.md';
COMMENT ON COLUMN memory_entries.content_hash IS
    'sha256 of content in UTF-8: a key over the text itself could not exceed 2.7 kB';
COMMENT ON COLUMN memory_entries.embedding IS
    'NULL until embedded; `hermes-pgvector backfill` fills it';
-- No foreign key: it would lock one hot row of memory_models per insert.
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

CREATE TABLE conversations (
    id                bigint GENERATED ALWAYS AS IDENTITY,
    agent_identity    text NOT NULL CHECK (agent_identity <> ''),
    session_id        text NOT NULL,
    parent_session_id text,
    role              text NOT NULL
        CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    content           text NOT NULL,
    ts                timestamptz NOT NULL DEFAULT now(),
    turn_key          bytea NOT NULL,
    embed             boolean NOT NULL DEFAULT true,
    embedding         halfvec(:dimensions),
    model_id          smallint,
    subject           text,
    metadata          jsonb NOT NULL DEFAULT '{}',
    tsv               tsvector NOT NULL,
    PRIMARY KEY (agent_identity, id),
    CONSTRAINT conversations_unique UNIQUE (agent_identity, session_id, turn_key),
    CONSTRAINT conversations_vector_has_model
        CHECK ((embedding IS NULL) = (model_id IS NULL))
) WITH (toast_tuple_target = 8160);
ALTER TABLE conversations ALTER embedding SET STORAGE MAIN;

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
