-- 0008 forgetting
--
-- Adds:    memory_entry_history, memory_forgotten
-- Why:     what an entry said before, and when and by whom it was changed; and whose
--          memory was deleted when, so that a write accepted before that stays away
-- Needs:   0002 memories
-- Locks:   none; creates new objects only
-- Runtime: instant
-- Undo:    DROP TABLE memory_entry_history, memory_forgotten;

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
