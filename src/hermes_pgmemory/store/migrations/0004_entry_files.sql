-- 0004 entry files
--
-- Adds:    memory_entries.files and .missing_from, an index over files; drops the index
--          over source, which serves no query any more
-- Why:     an entry may stand in the files of several homes, and is retired only when
--          none of them holds it any more
-- Needs:   0002 memories
-- Locks:   memory_entries, while its rows get the file they came from
-- Runtime: a second per 100,000 entries or so
-- Undo:    DROP INDEX ix_memory_entries_files;
--          ALTER TABLE memory_entries DROP files, DROP missing_from;
--          CREATE INDEX ix_memory_entries_source ON memory_entries (source)
--          WHERE source IS NOT NULL;

ALTER TABLE memory_entries
    ADD files        text[] NOT NULL DEFAULT '{}',
    ADD missing_from text[] NOT NULL DEFAULT '{}';

COMMENT ON COLUMN memory_entries.source IS
    'Keyed hash of the file that this row mirrors first of all';
COMMENT ON COLUMN memory_entries.files IS
    'Every file that was seen to hold the entry, source among them';
COMMENT ON COLUMN memory_entries.missing_from IS
    'Those of files that were later seen without it';

UPDATE memory_entries SET files = ARRAY[source] WHERE source IS NOT NULL;

DROP INDEX ix_memory_entries_source;
CREATE INDEX ix_memory_entries_files
    ON memory_entries USING gin (files);
