-- 0001 settings
--
-- Adds:    memory_settings, memory_models, memory_journal_positions
-- Why:     what the database's vectors and words mean, and how far each journal
--          has been applied
-- Needs:   PostgreSQL >= 15
-- Locks:   none; creates new objects only
-- Runtime: instant
-- Undo:    DROP TABLE memory_settings, memory_models, memory_journal_positions;
--          (loses the subject key: private rows can no longer be found)

CREATE TABLE memory_settings (
    key   text PRIMARY KEY,
    value jsonb NOT NULL
);

COMMENT ON TABLE memory_settings IS
    'text_search_config: configuration of every tsv column; '
    'subject_key: 32 random bytes in hex, keys the hash in every subject column; '
    'active_model_id: the only model whose vectors are compared';

-- Whoever knows the key can test whether a contact has rows, so it never leaves
-- the database and its agents. Three random UUIDs hold 366 random bits.
INSERT INTO memory_settings (key, value)
VALUES ('subject_key', to_jsonb(encode(sha256(
    uuid_send(gen_random_uuid())
    || uuid_send(gen_random_uuid())
    || uuid_send(gen_random_uuid())), 'hex')));

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
