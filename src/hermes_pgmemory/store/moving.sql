-- Rows on their way out of a database, or into one. They go out in pages, theme by theme
-- in the order of their ids; a page begins behind the last id of the one before.

-- :fragment vector
-- Of one model, if any: it may stop being the active one between two pages.
CASE WHEN model_id IN (SELECT id FROM memory_models WHERE name = %(model)s::text)
     THEN embedding::real[] END

-- :fragment page
agent_identity = %(theme)s
   AND id > %(after)s
   AND (%(private)s OR subject IS NULL)
 ORDER BY id
 LIMIT %(limit)s

-- :name themes_seen
-- Every theme of the registry, and every one that delegated.
SELECT agent_identity FROM memory_agents
 UNION
SELECT parent_identity FROM memory_agent_edges;

-- :name move_entries
SELECT id, target, content, subject, source, created_at, updated_at, retired_at,
       metadata, files, missing_from, {vector}
  FROM memory_entries
 WHERE {page};

-- :name move_turns
SELECT id, session_id, parent_session_id, role, content, ts, turn_key, embed, subject,
       metadata, text_hash, {vector}
  FROM conversations
 WHERE {page};

-- :name move_edges
SELECT id, child_identity, parent_session_id, child_session_id, kind, task, subject, ts,
       attrs
  FROM memory_agent_edges
 WHERE parent_identity = %(theme)s
   AND id > %(after)s
   AND (%(private)s OR subject IS NULL)
 ORDER BY id
 LIMIT %(limit)s;

-- :name move_agent
SELECT kind, first_seen, last_seen, attrs
  FROM memory_agents
 WHERE agent_identity = %(theme)s;

-- :name there_entries
-- Which of these are there already; places count from 1.
SELECT place
  FROM unnest(%(themes)s::text[], %(targets)s::text[], %(hashes)s::bytea[],
              %(subjects)s::text[])
           WITH ORDINALITY AS asked (theme, target, hash, subject, place)
 WHERE EXISTS (SELECT
                 FROM memory_entries
                WHERE agent_identity = asked.theme
                  AND memory_entries.target = asked.target
                  AND content_hash = asked.hash
                  AND memory_entries.subject IS NOT DISTINCT FROM asked.subject);

-- :name there_turns
SELECT place
  FROM unnest(%(themes)s::text[], %(session_ids)s::text[], %(turn_keys)s::bytea[])
           WITH ORDINALITY AS asked (theme, session_id, turn_key, place)
 WHERE EXISTS (SELECT
                 FROM conversations
                WHERE agent_identity = asked.theme
                  AND conversations.session_id = asked.session_id
                  AND conversations.turn_key = asked.turn_key);

-- :name there_edges
SELECT place
  FROM unnest(%(themes)s::text[], %(parents)s::text[], %(children)s::text[],
              %(kinds)s::text[], %(ats)s::timestamptz[], %(tasks)s::text[])
           WITH ORDINALITY AS asked (theme, parent, child, kind, at, task, place)
 WHERE EXISTS (SELECT
                 FROM memory_agent_edges
                WHERE parent_identity = asked.theme
                  AND parent_session_id = asked.parent
                  AND child_session_id = asked.child
                  AND memory_agent_edges.kind = asked.kind
                  AND ts = asked.at
                  AND task_hash = sha256(convert_to(asked.task, 'UTF8')));

-- :name there_agents
-- Seen at least as early and as late as these say.
SELECT place
  FROM unnest(%(themes)s::text[], %(firsts)s::timestamptz[], %(lasts)s::timestamptz[])
           WITH ORDINALITY AS asked (theme, first_at, last_at, place)
 WHERE EXISTS (SELECT
                 FROM memory_agents
                WHERE agent_identity = asked.theme
                  AND first_seen <= asked.first_at
                  AND last_seen >= asked.last_at);

-- :name settle_entries
-- Give entries that were just added what adding one cannot tell.
UPDATE memory_entries AS known
   SET updated_at = given.updated_at,
       retired_at = given.retired_at,
       files = ARRAY(SELECT jsonb_array_elements_text(given.files)),
       missing_from = ARRAY(SELECT jsonb_array_elements_text(given.missing))
  FROM unnest(%(themes)s::text[], %(targets)s::text[], %(hashes)s::bytea[],
              %(subjects)s::text[], %(updated)s::timestamptz[],
              %(retired)s::timestamptz[], %(files)s::jsonb[], %(missing)s::jsonb[])
           AS given (theme, target, hash, subject, updated_at, retired_at, files, missing)
 WHERE known.agent_identity = given.theme
   AND known.target = given.target
   AND known.content_hash = given.hash
   AND known.subject IS NOT DISTINCT FROM given.subject;

-- :name settle_turns
-- Say of turns that were just added what their vectors stand for, and give those that
-- have a key of their own that key.
UPDATE conversations AS known
   SET text_hash = coalesce(given.text_hash, known.text_hash),
       turn_key = given.turn_key
  FROM unnest(%(themes)s::text[], %(session_ids)s::text[], %(written)s::bytea[],
              %(turn_keys)s::bytea[], %(text_hashes)s::bytea[])
           AS given (theme, session_id, written, turn_key, text_hash)
 WHERE known.agent_identity = given.theme
   AND known.session_id = given.session_id
   AND known.turn_key = given.written;

-- :name settle_edges
-- Say of delegations that were just added to whom they went, and of what kind they are.
UPDATE memory_agent_edges AS known
   SET child_identity = given.child_identity,
       kind = given.kind
  FROM unnest(%(themes)s::text[], %(parents)s::text[], %(children)s::text[],
              %(kinds)s::text[], %(ats)s::timestamptz[], %(tasks)s::text[],
              %(child_identities)s::text[])
           AS given (theme, parent, child, kind, at, task, child_identity)
 WHERE parent_identity = given.theme
   AND parent_session_id = given.parent
   AND child_session_id = given.child
   AND known.kind = 'delegated'
   AND ts = given.at
   AND task_hash = sha256(convert_to(given.task, 'UTF8'));

-- :name settle_agents
-- Add what is noted of a theme; what is known already stays.
UPDATE memory_agents AS known
   SET attrs = given.attrs || known.attrs
  FROM unnest(%(themes)s::text[], %(attrs)s::jsonb[]) AS given (theme, attrs)
 WHERE known.agent_identity = given.theme
   AND NOT known.attrs @> given.attrs;

-- :name was_written_to
-- Whether anything came by a journal: whoever keeps one keeps this database's key, too.
SELECT EXISTS (SELECT FROM memory_journal_positions);

-- :name take_subject_key
-- Take over another database's key, as long as no row was made with our own.
UPDATE memory_settings
   SET value = to_jsonb(%(key)s::text)
 WHERE key = 'subject_key'
   AND NOT EXISTS (SELECT FROM memory_entries WHERE subject IS NOT NULL)
   AND NOT EXISTS (SELECT FROM conversations WHERE subject IS NOT NULL)
   AND NOT EXISTS (SELECT FROM memory_agent_edges WHERE subject IS NOT NULL)
   AND NOT EXISTS (SELECT FROM memory_entry_history WHERE subject IS NOT NULL)
RETURNING 1;

-- :name foreign_payloads
-- A page of a table of mem0, whose name is put in its place.
SELECT id, payload
  FROM "the table"
 WHERE %(after)s::uuid IS NULL OR id > %(after)s::uuid
 ORDER BY id
 LIMIT %(limit)s;

-- :name is_hexus
-- Whether these are tables of hexus. The original's, which it was made from, have no
-- delegations, and ours have them elsewhere.
SELECT NOT EXISTS (
           SELECT
             FROM (VALUES ('memory_entries', 'id agent_identity target content'
                                             ' created_at updated_at metadata'),
                          ('conversations', 'id session_id agent_identity role content'
                                            ' ts'),
                          ('delegations', 'id agent_identity parent_session_id'
                                          ' child_session_id task result ts'))
                      AS needed (relation, columns),
                  {missing_column});

-- :name hexus_entries
SELECT id, agent_identity, target, content, created_at, updated_at, metadata
  FROM memory_entries
 WHERE id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;

-- :name hexus_sessions
-- A page of the sessions of every agent, in the order of its index over them.
SELECT session_id, agent_identity
  FROM conversations
 WHERE %(session_id)s::text IS NULL
    OR (session_id, agent_identity) > (%(session_id)s::text, %(agent_identity)s::text)
 GROUP BY session_id, agent_identity
 ORDER BY session_id, agent_identity
 LIMIT %(limit)s;

-- :name hexus_turns
-- One session of one agent.
SELECT role, content, ts
  FROM conversations
 WHERE session_id = %(session_id)s
   AND agent_identity = %(agent_identity)s
 ORDER BY ts, id;

-- :name hexus_delegations
SELECT id, agent_identity, parent_session_id, child_session_id, task, result, ts
  FROM delegations
 WHERE id > %(after)s
 ORDER BY id
 LIMIT %(limit)s;
