-- The schema as it is now: what all migrations together make, on an empty database.
-- For reading; `hermes-pgvector migrate` runs the migrations. A test compares both.
-- `:dimensions` stands for the length of the vectors.

CREATE TABLE memory_migrations (
    version    text PRIMARY KEY,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE memory_migrations IS
    'What `hermes-pgvector migrate` applied; checksum is the shipped file''s sha256';

CREATE TABLE memory_settings (
    key   text PRIMARY KEY,
    value jsonb NOT NULL
);

COMMENT ON TABLE memory_settings IS
    'text_search_config: configuration of every tsv column; '
    'subject_key: 32 random bytes in hex, keys the hash in every subject column; '
    'active_model_id: the only model whose vectors are compared';

CREATE TABLE memory_models (
    id              smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text NOT NULL CHECK (name <> ''),
    dimension       integer NOT NULL CHECK (dimension BETWEEN 1 AND 16000),
    query_prefix    text NOT NULL DEFAULT '',
    document_prefix text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (name, dimension)
);

COMMENT ON TABLE memory_models IS
    'Every embedding model that vectors in this database came from';
COMMENT ON COLUMN memory_models.query_prefix IS
    'Put before a question when it is embedded';
COMMENT ON COLUMN memory_models.document_prefix IS
    'Put before a stored text when it is embedded';

CREATE TABLE memory_journal_positions (
    agent_identity text NOT NULL,
    epoch          uuid NOT NULL,
    position       bigint NOT NULL,
    updated_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent_identity, epoch)
);

COMMENT ON TABLE memory_journal_positions IS
    'How far each journal has been applied; makes a replay change nothing';
COMMENT ON COLUMN memory_journal_positions.epoch IS
    'One run of one agent process, the author of a journal';
COMMENT ON COLUMN memory_journal_positions.position IS
    'The last write of this epoch and theme that was applied';

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
    files          text[] NOT NULL DEFAULT '{}',
    missing_from   text[] NOT NULL DEFAULT '{}',
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
    'Keyed hash of the file that this row mirrors first of all';
COMMENT ON COLUMN memory_entries.retired_at IS
    'Set when no file holds the entry any more; recall skips such rows';
COMMENT ON COLUMN memory_entries.tsv IS
    'Lexemes of the first 100,000 characters, by memory_settings.text_search_config';
COMMENT ON COLUMN memory_entries.files IS
    'Every file that was seen to hold the entry, source among them';
COMMENT ON COLUMN memory_entries.missing_from IS
    'Those of files that were later seen without it';

CREATE INDEX ix_memory_entries_agent_target
    ON memory_entries (agent_identity, target, updated_at);
CREATE INDEX ix_memory_entries_tsv
    ON memory_entries USING gin (tsv);
CREATE INDEX ix_memory_entries_unembedded
    ON memory_entries (id) WHERE embedding IS NULL;
CREATE INDEX ix_memory_entries_files
    ON memory_entries USING gin (files);
CREATE INDEX ix_memory_entries_subject
    ON memory_entries (agent_identity, subject) WHERE subject IS NOT NULL;

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
    text_hash         bytea,
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
COMMENT ON COLUMN conversations.text_hash IS
    'First half of the sha256 of what is embedded, the turn in its context';

CREATE INDEX ix_conversations_agent_ts
    ON conversations (agent_identity, ts);
CREATE INDEX ix_conversations_session_ts
    ON conversations (agent_identity, session_id, ts);
CREATE INDEX ix_conversations_tsv
    ON conversations USING gin (tsv);
CREATE INDEX ix_conversations_unembedded
    ON conversations (id) WHERE embedding IS NULL AND embed;
CREATE INDEX ix_conversations_text_hash
    ON conversations (agent_identity, text_hash) WHERE text_hash IS NOT NULL;
CREATE INDEX ix_conversations_subject
    ON conversations (agent_identity, subject, ts) WHERE subject IS NOT NULL;

CREATE TABLE memory_agents (
    agent_identity text PRIMARY KEY CHECK (agent_identity <> ''),
    kind           text NOT NULL DEFAULT 'theme',
    first_seen     timestamptz NOT NULL DEFAULT now(),
    last_seen      timestamptz NOT NULL DEFAULT now(),
    attrs          jsonb NOT NULL DEFAULT '{}'
);

COMMENT ON COLUMN memory_agents.kind IS
    'theme, worker, dm, group, bench or default';

CREATE TABLE memory_agent_edges (
    id                bigint GENERATED ALWAYS AS IDENTITY,
    parent_identity   text NOT NULL CHECK (parent_identity <> ''),
    child_identity    text,
    parent_session_id text NOT NULL,
    child_session_id  text NOT NULL,
    kind              text NOT NULL DEFAULT 'delegated',
    task              text NOT NULL DEFAULT '',
    task_hash         bytea NOT NULL,
    subject           text,
    ts                timestamptz NOT NULL DEFAULT now(),
    attrs             jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (parent_identity, id),
    CONSTRAINT memory_agent_edges_unique UNIQUE
        (parent_identity, parent_session_id, child_session_id, kind, ts, task_hash)
);

COMMENT ON TABLE memory_agent_edges IS
    'Provenance only: who delegated what to whom, and when';
COMMENT ON COLUMN memory_agent_edges.child_identity IS
    'NULL where the host does not tell whom the child session belongs to';
COMMENT ON COLUMN memory_agent_edges.task_hash IS
    'sha256 of task in UTF-8, for the unique key';
COMMENT ON COLUMN memory_agent_edges.subject IS
    'Keyed hash of the contact on whose behalf it was delegated';

CREATE INDEX ix_memory_agent_edges_parent
    ON memory_agent_edges (parent_identity, ts);
CREATE INDEX ix_memory_agent_edges_child
    ON memory_agent_edges (child_session_id);

CREATE TABLE memory_maintenance_log (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ts               timestamptz NOT NULL DEFAULT now(),
    operation        text NOT NULL,
    target_table     text,
    identity_pattern text,
    affected_count   bigint,
    dropped_dupes    bigint,
    dry_run          boolean NOT NULL DEFAULT true,
    details          jsonb NOT NULL DEFAULT '{}'
);

COMMENT ON COLUMN memory_maintenance_log.dropped_dupes IS
    'Rows of affected_count that were deleted as duplicates of another';

CREATE TABLE memory_entry_history (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    agent_identity text NOT NULL CHECK (agent_identity <> ''),
    entry_id       bigint NOT NULL,
    successor_id   bigint,
    target         text NOT NULL CHECK (target IN ('memory', 'user')),
    change         text NOT NULL CHECK (change IN ('replaced', 'removed', 'retired')),
    content        text NOT NULL,
    subject        text,
    source         text,
    since          timestamptz NOT NULL,
    at             timestamptz NOT NULL,
    metadata       jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (agent_identity, id)
);

COMMENT ON TABLE memory_entry_history IS
    'What entries said before they were replaced, removed or retired; `prune` '
    'deletes what is old';
COMMENT ON COLUMN memory_entry_history.entry_id IS
    'memory_entries.id of the entry, which may be gone';
COMMENT ON COLUMN memory_entry_history.successor_id IS
    'The entry that says it now: the same one, or one that said it already; '
    'NULL where none does';
COMMENT ON COLUMN memory_entry_history.content IS
    'What it said until then';
COMMENT ON COLUMN memory_entry_history.subject IS
    'Keyed hash of the contact whose private row this is; NULL belongs to nobody';
COMMENT ON COLUMN memory_entry_history.source IS
    'Keyed hash of the file in which it was changed';
COMMENT ON COLUMN memory_entry_history.since IS
    'When it began to say so';
COMMENT ON COLUMN memory_entry_history.at IS
    'When it was changed';
COMMENT ON COLUMN memory_entry_history.metadata IS
    'Where the change came from: platform, session, origin';

CREATE INDEX ix_memory_entry_history_agent_at
    ON memory_entry_history (agent_identity, at);

CREATE TABLE memory_forgotten (
    agent_identity text NOT NULL CHECK (agent_identity <> ''),
    subject        text NOT NULL,
    forgotten_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent_identity, subject)
);

COMMENT ON TABLE memory_forgotten IS
    'Whose memory `forget` deleted: what was said until then, and arrives later from a '
    'journal, is not stored; deleted itself after 90 days';
COMMENT ON COLUMN memory_forgotten.subject IS
    'Keyed hash of the contact; empty for the whole theme';

CREATE VIEW v_agent_memory AS
WITH remembered AS (
    SELECT agent_identity, count(*) AS rows
      FROM memory_entries
     WHERE retired_at IS NULL
     GROUP BY agent_identity
), said AS (
    SELECT agent_identity, count(*) AS rows
      FROM conversations
     GROUP BY agent_identity
)
SELECT agent_identity,
       memory_agents.kind,
       coalesce(remembered.rows, 0) AS memory_rows,
       coalesce(said.rows, 0) AS conversation_rows,
       memory_agents.first_seen,
       memory_agents.last_seen
  FROM memory_agents
  FULL JOIN remembered USING (agent_identity)
  FULL JOIN said USING (agent_identity)
 ORDER BY agent_identity;
