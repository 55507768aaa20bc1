-- 0006 text hashes
--
-- Adds:    conversations.text_hash, an index over it
-- Why:     a text that its theme embedded before takes the vector from that row, instead
--          of asking the model again
-- Needs:   0002 memories
-- Locks:   conversations, against writers, while an empty index is built
-- Runtime: a second per 1,000,000 turns or so
-- Undo:    ALTER TABLE conversations DROP text_hash;

ALTER TABLE conversations ADD text_hash bytea;

COMMENT ON COLUMN conversations.text_hash IS
    'First half of the sha256 of what is embedded, the turn in its context';

CREATE INDEX ix_conversations_text_hash
    ON conversations (agent_identity, text_hash) WHERE text_hash IS NOT NULL;
