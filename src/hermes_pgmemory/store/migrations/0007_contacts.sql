-- 0007 contacts
--
-- Adds:    an index by contact to memory_entries and to conversations
-- Why:     all private chats of a fleet share a theme: what one contact may see is found
--          without reading everybody's rows
-- Needs:   0002 memories
-- Locks:   both tables, against writers, while the rows of contacts are indexed
-- Runtime: a second per 1,000,000 rows or so
-- Undo:    DROP INDEX ix_memory_entries_subject, ix_conversations_subject;

CREATE INDEX ix_memory_entries_subject
    ON memory_entries (agent_identity, subject) WHERE subject IS NOT NULL;

CREATE INDEX ix_conversations_subject
    ON conversations (agent_identity, subject, ts) WHERE subject IS NOT NULL;
