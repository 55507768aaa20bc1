-- Deleting what belongs to a contact or to a theme, and looking for what is left of it.
-- *subjects* are the keyed hashes of one contact, NULL where a whole theme goes.

-- :fragment mine
agent_identity = %(theme)s
   AND (%(subjects)s::text[] IS NULL OR subject = ANY (%(subjects)s::text[]))

-- :name forgotten
-- Which of these owners were forgotten, and when.
SELECT agent_identity, subject, forgotten_at
  FROM memory_forgotten
 WHERE (agent_identity, subject)
       IN (SELECT *
             FROM unnest(%(themes)s::text[], %(subjects)s::text[])
                      AS asked (theme, subject));

-- :name hold_writers
-- Wait until every transaction that applies writes has ended, and let none begin: who
-- comes next sees what this transaction did. Held for an instant.
LOCK TABLE memory_journal_positions IN SHARE MODE;

-- :name join_writers
-- Be one of those that `hold_writers` waits for, until this transaction ends.
LOCK TABLE memory_journal_positions IN ROW EXCLUSIVE MODE;

-- :name note_forgotten
-- From this instant backwards nothing of these owners is stored any more. What was
-- noted long ago goes: no journal is that old.
WITH old AS (
    DELETE FROM memory_forgotten
     WHERE forgotten_at < now() - %(kept)s::interval
)
INSERT INTO memory_forgotten AS known (agent_identity, subject, forgotten_at)
SELECT theme, subject, clock_timestamp()
  FROM unnest(%(themes)s::text[], %(subjects)s::text[]) AS given (theme, subject)
 ORDER BY theme, subject
    ON CONFLICT (agent_identity, subject) DO UPDATE
   SET forgotten_at = EXCLUDED.forgotten_at;

-- :name whose_rows
-- Which of these contacts have rows, in which themes, from which platforms.
SELECT agent_identity, subject, platform, count(*)
  FROM (SELECT agent_identity, subject, metadata ->> 'platform' AS platform
          FROM memory_entries
         WHERE subject = ANY (%(subjects)s::text[])
        UNION ALL
        SELECT agent_identity, subject, metadata ->> 'platform'
          FROM conversations
         WHERE subject = ANY (%(subjects)s::text[])
        UNION ALL
        SELECT parent_identity, subject, attrs ->> 'platform'
          FROM memory_agent_edges
         WHERE subject = ANY (%(subjects)s::text[])
        UNION ALL
        SELECT agent_identity, subject, metadata ->> 'platform'
          FROM memory_entry_history
         WHERE subject = ANY (%(subjects)s::text[])) AS rows
 GROUP BY agent_identity, subject, platform
 ORDER BY agent_identity, subject, platform;

-- :name were_forgotten
-- Which of these contacts were forgotten lately: what went on after that may not have
-- come to its end.
SELECT DISTINCT subject
  FROM memory_forgotten
 WHERE subject = ANY (%(subjects)s::text[]);

-- :name texts_of_entries
SELECT id, content
  FROM memory_entries
 WHERE {mine}
   AND id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :name texts_of_turns
SELECT id, content
  FROM conversations
 WHERE {mine}
   AND id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :name texts_of_history
SELECT id, content
  FROM memory_entry_history
 WHERE {mine}
   AND id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :name texts_of_edges
SELECT id, task
  FROM memory_agent_edges
 WHERE parent_identity = %(theme)s
   AND (%(subjects)s::text[] IS NULL OR subject = ANY (%(subjects)s::text[]))
   AND id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :name forget_positions
-- Of a whole theme only: a journal's place in a bucket is all contacts'. First, because
-- whoever stores a theme's writes locks it first.
WITH gone AS (
    DELETE FROM memory_journal_positions
     WHERE agent_identity = %(theme)s
       AND %(subjects)s::text[] IS NULL
    RETURNING 1
)
SELECT count(*) FROM gone;

-- :name forget_entries
WITH gone AS (DELETE FROM memory_entries WHERE {mine} RETURNING 1)
SELECT count(*) FROM gone;

-- :name forget_history
WITH gone AS (DELETE FROM memory_entry_history WHERE {mine} RETURNING 1)
SELECT count(*) FROM gone;

-- :name forget_turns
WITH gone AS (DELETE FROM conversations WHERE {mine} RETURNING 1)
SELECT count(*) FROM gone;

-- :name forget_edges
-- What it delegated; where others delegated to a theme, its name goes.
WITH gone AS (
    DELETE FROM memory_agent_edges
     WHERE parent_identity = %(theme)s
       AND (%(subjects)s::text[] IS NULL OR subject = ANY (%(subjects)s::text[]))
    RETURNING 1
), named AS (
    UPDATE memory_agent_edges
       SET child_identity = NULL
     WHERE child_identity = %(theme)s
       AND parent_identity <> %(theme)s
       AND %(subjects)s::text[] IS NULL
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM named);

-- :name forget_agents
WITH gone AS (
    DELETE FROM memory_agents
     WHERE agent_identity = %(theme)s
       AND %(subjects)s::text[] IS NULL
    RETURNING 1
)
SELECT count(*) FROM gone;

-- :fragment told
-- The details of a line, by name.
jsonb_each_text(CASE jsonb_typeof(details) WHEN 'object' THEN details ELSE '{}' END)

-- :name forget_log
-- The log's lines stay, for their numbers; what names the owner goes out of them.
WITH named AS (
    SELECT id, ARRAY(SELECT key
                       FROM {told}
                      WHERE key = ANY (%(names)s::text[])
                         OR value = ANY (%(names)s::text[])) AS keys
      FROM memory_maintenance_log
     WHERE string_to_array(identity_pattern, ' -> ') && %(names)s::text[]
        OR EXISTS (SELECT
                     FROM {told}
                    WHERE key = ANY (%(names)s::text[])
                       OR value = ANY (%(names)s::text[]))
), gone AS (
    UPDATE memory_maintenance_log AS line
       SET identity_pattern = CASE WHEN identity_pattern IS NOT NULL
                                   THEN '(forgotten)' END,
           details = CASE WHEN named.keys = '{}' THEN details
                          ELSE details - named.keys END
      FROM named
     WHERE line.id = named.id
    RETURNING 1
)
SELECT count(*) FROM gone;

-- :name left_of
-- How many rows still belong to an owner, all tables together.
SELECT (SELECT count(*) FROM memory_entries WHERE {mine})
     + (SELECT count(*) FROM memory_entry_history WHERE {mine})
     + (SELECT count(*) FROM conversations WHERE {mine})
     + (SELECT count(*)
          FROM memory_agent_edges
         WHERE parent_identity = %(theme)s
           AND (%(subjects)s::text[] IS NULL OR subject = ANY (%(subjects)s::text[])));

-- :name read_memory_entries
-- Every text column, page by page; so in all that follow.
SELECT id, agent_identity, target, content, subject, source, metadata::text,
       files::text, missing_from::text
  FROM memory_entries
 WHERE (agent_identity, id) > (%(theme)s, %(after)s)
 ORDER BY agent_identity, id
 LIMIT %(limit)s;

-- :name read_memory_entry_history
SELECT id, agent_identity, target, change, content, subject, source, metadata::text
  FROM memory_entry_history
 WHERE (agent_identity, id) > (%(theme)s, %(after)s)
 ORDER BY agent_identity, id
 LIMIT %(limit)s;

-- :name read_conversations
SELECT id, agent_identity, session_id, parent_session_id, role, content, subject,
       metadata::text
  FROM conversations
 WHERE (agent_identity, id) > (%(theme)s, %(after)s)
 ORDER BY agent_identity, id
 LIMIT %(limit)s;

-- :name read_memory_agent_edges
SELECT id, parent_identity, child_identity, parent_session_id, child_session_id, kind,
       task, subject, attrs::text
  FROM memory_agent_edges
 WHERE (parent_identity, id) > (%(theme)s, %(after)s)
 ORDER BY parent_identity, id
 LIMIT %(limit)s;

-- :name read_memory_agents
SELECT 0, agent_identity, kind, attrs::text
  FROM memory_agents
 WHERE agent_identity > %(theme)s
   AND %(after)s IS NOT NULL
 ORDER BY agent_identity
 LIMIT %(limit)s;

-- :name read_memory_maintenance_log
SELECT id, '', operation, target_table, identity_pattern, details::text
  FROM memory_maintenance_log
 WHERE id > %(after)s
   AND %(theme)s::text IS NOT NULL
 ORDER BY id
 LIMIT %(limit)s;

-- :name read_memory_journal_positions
SELECT DISTINCT 0, agent_identity
  FROM memory_journal_positions
 WHERE agent_identity > %(theme)s
   AND %(after)s IS NOT NULL
 ORDER BY agent_identity
 LIMIT %(limit)s;

-- :name read_memory_forgotten
SELECT DISTINCT 0, agent_identity
  FROM memory_forgotten
 WHERE agent_identity > %(theme)s
   AND %(after)s IS NOT NULL
 ORDER BY agent_identity
 LIMIT %(limit)s;

-- :name read_memory_settings
-- Few rows: one page holds them all. The key that hashes contacts stays where it is.
SELECT 0, 'settings', key, CASE WHEN key <> 'subject_key' THEN value::text END
  FROM memory_settings
 WHERE %(theme)s::text = ''
   AND %(after)s = 0
 LIMIT %(limit)s;

-- :name read_memory_models
SELECT id, 'models', name, query_prefix, document_prefix
  FROM memory_models
 WHERE %(theme)s::text = ''
   AND id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :name read_memory_migrations
SELECT 0, version, checksum
  FROM memory_migrations
 WHERE version > %(theme)s
   AND %(after)s IS NOT NULL
 ORDER BY version
 LIMIT %(limit)s;

-- :name read_pg_stats
-- What the planner knows of our columns: frequent values, as they are.
SELECT 0, tablename, attname, most_common_vals::text, histogram_bounds::text
  FROM pg_stats
 WHERE tablename IN ('memory_entries', 'memory_entry_history', 'conversations',
                     'memory_agent_edges', 'memory_agents', 'memory_maintenance_log')
   AND attname NOT IN ('id', 'embedding', 'embedding_next', 'embedding_old', 'tsv')
   AND %(theme)s::text = ''
   AND %(after)s = 0
 LIMIT %(limit)s;

-- :name may_vacuum
-- Whether this role may clear a table of dead rows.
SELECT pg_has_role(relowner, 'USAGE')
  FROM pg_class
 WHERE oid = %(table)s::regclass;

-- :name vacuum_entries
VACUUM (ANALYZE) memory_entries;

-- :name vacuum_history
VACUUM (ANALYZE) memory_entry_history;

-- :name vacuum_turns
VACUUM (ANALYZE) conversations;

-- :name vacuum_edges
VACUUM (ANALYZE) memory_agent_edges;
