-- What an operator does now and then. Every statement that changes rows does one
-- bounded part of one theme and says how far it came, so that no lock is held for
-- long and a rehearsal, which rolls each part back, can go on after it. The columns
-- are: rows looked at, rows affected, those of them dropped as duplicates, and the
-- place of the last row looked at. Rows are named by arrays, not joined: right after
-- a theme was filled, the planner takes it for empty and would join it quadratically.

-- :fragment bare
-- Nothing but white space; only an adopted database has such rows.
content !~ '\S'

-- :fragment squeezed
-- A text by its words: white space only tells them apart.
sha256(convert_to(btrim(regexp_replace(content, '\s+', ' ', 'g')), 'UTF8'))

-- :name stored_themes
-- Every theme that has rows, by name; jumps through the indexes from one to the next.
WITH RECURSIVE entries (theme) AS (
    SELECT min(agent_identity) FROM memory_entries
    UNION ALL
    SELECT (SELECT min(agent_identity) FROM memory_entries WHERE agent_identity > theme)
      FROM entries
     WHERE theme IS NOT NULL
), past (theme) AS (
    SELECT min(agent_identity) FROM memory_entry_history
    UNION ALL
    SELECT (SELECT min(agent_identity)
              FROM memory_entry_history
             WHERE agent_identity > theme)
      FROM past
     WHERE theme IS NOT NULL
), turns (theme) AS (
    SELECT min(agent_identity) FROM conversations
    UNION ALL
    SELECT (SELECT min(agent_identity) FROM conversations WHERE agent_identity > theme)
      FROM turns
     WHERE theme IS NOT NULL
)
SELECT theme FROM entries WHERE theme IS NOT NULL
 UNION
SELECT theme FROM past WHERE theme IS NOT NULL
 UNION
SELECT theme FROM turns WHERE theme IS NOT NULL
 ORDER BY theme;

-- :name table_sizes
-- Bytes on disk of each of our tables: all in all, and those of its indexes.
SELECT relname::text, pg_total_relation_size(oid), pg_indexes_size(oid)
  FROM pg_class
 WHERE oid IN (SELECT to_regclass(name)
                 FROM unnest(ARRAY['memory_entries', 'conversations', 'memory_agents',
                                   'memory_agent_edges', 'memory_journal_positions',
                                   'memory_entry_history', 'memory_forgotten',
                                   'memory_maintenance_log', 'memory_settings',
                                   'memory_models', 'memory_migrations']) AS name)
 ORDER BY pg_total_relation_size(oid) DESC, relname;

-- :name last_runs
-- The latest lines of the maintenance log, latest first.
SELECT ts, operation, target_table, identity_pattern, affected_count, dropped_dupes,
       details
  FROM memory_maintenance_log
 WHERE NOT dry_run
 ORDER BY id DESC
 LIMIT %(limit)s;

-- :name open_run
-- Start a line of the log; each part adds to it in its own transaction.
INSERT INTO memory_maintenance_log
       (operation, target_table, identity_pattern, affected_count, dropped_dupes,
        dry_run, details)
VALUES (%(operation)s, %(table)s, %(pattern)s, 0, 0, false, %(details)s)
RETURNING id;

-- :name add_to_run
UPDATE memory_maintenance_log
   SET affected_count = affected_count + %(affected)s,
       dropped_dupes = dropped_dupes + %(dropped)s,
       details = details || %(details)s
 WHERE id = %(run)s;

-- :name waiting_entries
-- How many entries wait for a vector, and the last of them.
SELECT count(*), coalesce(max(id), 0)
  FROM memory_entries
 WHERE embedding IS NULL
   AND retired_at IS NULL
   AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s);

-- :name waiting_turns
-- How many turns wait for a vector, and the last of them.
SELECT count(*), coalesce(max(id), 0)
  FROM conversations
 WHERE embedding IS NULL
   AND embed
   AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s);

-- :fragment pruned
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM gone),
       0,
       (SELECT at FROM part ORDER BY at DESC, id DESC LIMIT 1),
       (SELECT id FROM part ORDER BY at DESC, id DESC LIMIT 1)

-- :name prune_turns
-- Delete the oldest turns of one theme that lie before a place.
WITH part AS (
    SELECT ts AS at, id
      FROM conversations
     WHERE agent_identity = %(theme)s
       AND (ts, id) < (%(before)s, %(before_id)s)
       AND (ts, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), %(after_id)s)
     ORDER BY ts, id
     LIMIT %(limit)s
), gone AS (
    DELETE FROM conversations
     WHERE agent_identity = %(theme)s
       AND id = ANY (ARRAY(SELECT id FROM part))
    RETURNING 1
)
{pruned};

-- :name prune_retired
-- Delete entries that were retired before an instant, but for those that came back.
WITH part AS (
    SELECT retired_at AS at, id
      FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND (retired_at, id) < (%(before)s, %(before_id)s)
       AND (retired_at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), %(after_id)s)
     ORDER BY retired_at, id
     LIMIT %(limit)s
), gone AS (
    DELETE FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND id = ANY (ARRAY(SELECT id FROM part))
       AND (retired_at, id) < (%(before)s, %(before_id)s)
    RETURNING 1
)
{pruned};

-- :name prune_history
-- Delete what entries said until an instant.
WITH part AS (
    SELECT at, id
      FROM memory_entry_history
     WHERE agent_identity = %(theme)s
       AND (at, id) < (%(before)s, %(before_id)s)
       AND (at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), %(after_id)s)
     ORDER BY at, id
     LIMIT %(limit)s
), gone AS (
    DELETE FROM memory_entry_history
     WHERE agent_identity = %(theme)s
       AND id = ANY (ARRAY(SELECT id FROM part))
    RETURNING 1
)
{pruned};

-- :name turns_beyond
-- The newest turn of one theme that so many newer ones leave no room for.
SELECT ts, id
  FROM conversations
 WHERE agent_identity = %(theme)s
 ORDER BY ts DESC, id DESC
OFFSET %(rows)s
 LIMIT 1;

-- :name untidy_turns
-- Turns of one theme to delete, each with the turn that stays in its place.
SELECT id, kept
  FROM (SELECT id,
               first_value(id) OVER same AS kept,
               row_number() OVER same AS place,
               {bare} AS bare
          FROM conversations
         WHERE agent_identity = %(theme)s
        WINDOW same AS (PARTITION BY session_id, ts, role, subject,
                                     sha256(convert_to(content, 'UTF8'))
                            ORDER BY embedding IS NULL, id)) AS ranked
 WHERE bare OR place > 1
 ORDER BY id;

-- :name tidy_turns
-- Delete those of these turns that are blank, or whose stand-in is still there.
WITH gone AS (
    DELETE FROM conversations AS turn
     USING unnest(%(ids)s::bigint[], %(kept)s::bigint[]) AS found (id, kept)
     WHERE turn.agent_identity = %(theme)s
       AND turn.id = found.id
       AND ({bare}
            OR EXISTS (SELECT
                         FROM conversations AS other
                        WHERE other.agent_identity = %(theme)s
                          AND other.id = found.kept
                          AND other.id <> turn.id
                          AND other.session_id = turn.session_id
                          AND other.role = turn.role
                          AND other.ts = turn.ts
                          AND other.subject IS NOT DISTINCT FROM turn.subject
                          AND other.content = turn.content))
    RETURNING {bare} AS bare
)
SELECT cardinality(%(ids)s::bigint[]), count(*), count(*) FILTER (WHERE NOT bare),
       NULL::timestamptz, 0::bigint
  FROM gone;

-- :name untidy_entries
-- Entries of one theme to delete, each with the entry that stays in its place: a live
-- one before a retired one, then the one that has no outer white space, as the host
-- writes its files.
SELECT id, kept
  FROM (SELECT id,
               first_value(id) OVER same AS kept,
               row_number() OVER same AS place,
               {bare} AS bare
          FROM memory_entries
         WHERE agent_identity = %(theme)s
        WINDOW same AS (PARTITION BY target, subject, {squeezed}
                            ORDER BY retired_at IS NOT NULL,
                                     content ~ '^\s|\s$', id)) AS ranked
 WHERE bare OR place > 1
 ORDER BY id;

-- :name tidy_entries
-- Delete those of these entries that are blank, or whose stand-in still says the
-- same; it takes over the age, the files, and a vector where it has none.
WITH mine AS (
    SELECT id, target, subject, created_at, retired_at, source, files, missing_from,
           embedding, model_id, {bare} AS bare, {squeezed} AS said
      FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND id = ANY (%(ids)s::bigint[] || %(kept)s::bigint[])
), found AS (
    SELECT mine.id, mine.bare, other.id AS kept, mine.created_at, mine.source,
           mine.files, mine.missing_from, mine.embedding, mine.model_id
      FROM unnest(%(ids)s::bigint[], %(kept)s::bigint[]) AS given (id, kept)
      JOIN mine USING (id)
      LEFT JOIN mine AS other
             ON other.id = given.kept
            AND other.id <> mine.id
            AND other.target = mine.target
            AND other.subject IS NOT DISTINCT FROM mine.subject
            AND other.said = mine.said
            AND (other.retired_at IS NULL OR mine.retired_at IS NOT NULL)
     WHERE mine.bare OR other.id IS NOT NULL
), heirs AS (
    SELECT kept,
           min(created_at) AS created_at,
           min(source) AS source,
           (array_agg(embedding ORDER BY id)
               FILTER (WHERE embedding IS NOT NULL))[1] AS embedding,
           (array_agg(model_id ORDER BY id)
               FILTER (WHERE embedding IS NOT NULL))[1] AS model_id
      FROM found
     WHERE NOT bare
     GROUP BY kept
), handed AS (
    SELECT kept,
           array_agg(DISTINCT file) AS files,
           array_agg(DISTINCT file) FILTER (WHERE file <> ALL (missing_from)) AS held
      FROM found
     CROSS JOIN LATERAL unnest(files) AS file
     WHERE NOT bare
     GROUP BY kept
), merged AS (
    UPDATE memory_entries AS known
       SET created_at = least(known.created_at, heirs.created_at),
           source = coalesce(known.source, heirs.source),
           files = ARRAY(SELECT unnest(known.files) UNION SELECT unnest(handed.files)),
           missing_from = ARRAY(
               SELECT unnest(known.missing_from || handed.files)
               EXCEPT
              (SELECT unnest(known.files) EXCEPT SELECT unnest(known.missing_from))
               EXCEPT
               SELECT unnest(handed.held)),
           embedding = coalesce(known.embedding, heirs.embedding),
           model_id = CASE WHEN known.embedding IS NULL THEN heirs.model_id
                           ELSE known.model_id END
      FROM heirs
      LEFT JOIN handed USING (kept)
     WHERE known.agent_identity = %(theme)s
       AND known.id = heirs.kept
), gone AS (
    DELETE FROM memory_entries
     USING found
     WHERE agent_identity = %(theme)s
       AND memory_entries.id = found.id
    RETURNING found.bare
)
SELECT cardinality(%(ids)s::bigint[]), count(*), count(*) FILTER (WHERE NOT bare),
       NULL::timestamptz, 0::bigint
  FROM gone;

-- :name may_tidy_positions
-- The role of the agents need not.
SELECT has_table_privilege('memory_journal_positions', 'DELETE');

-- :name tidy_positions
-- Forget how far journals were applied that nobody has for a long time. All at once:
-- the rows are small, and no living agent touches them.
WITH gone AS (
    DELETE FROM memory_journal_positions
     WHERE updated_at < %(before)s
       AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s)
    RETURNING 1
)
SELECT 0, count(*), 0, NULL::timestamptz, 0::bigint
  FROM gone;

-- :name remap_entries
-- Move entries to another theme; one that it has already is merged into that row, and
-- is missing from those files that held neither at last.
WITH part AS (
    SELECT id, target, content_hash, subject
      FROM memory_entries
     WHERE agent_identity = %(old)s
       AND id > %(after_id)s
     ORDER BY id
     LIMIT %(limit)s
), twins AS (
    SELECT part.id, known.id AS kept
      FROM part
      JOIN memory_entries AS known
        ON known.agent_identity = %(new)s
       AND known.target = part.target
       AND known.content_hash = part.content_hash
       AND known.subject IS NOT DISTINCT FROM part.subject
), dropped AS (
    DELETE FROM memory_entries
     USING twins
     WHERE agent_identity = %(old)s
       AND memory_entries.id = twins.id
    RETURNING kept, created_at, updated_at, retired_at, source, files, missing_from,
              embedding, model_id
), merged AS (
    UPDATE memory_entries AS known
       SET created_at = least(known.created_at, dropped.created_at),
           updated_at = greatest(known.updated_at, dropped.updated_at),
           retired_at = CASE WHEN dropped.retired_at IS NULL THEN NULL
                             ELSE known.retired_at END,
           source = CASE WHEN known.retired_at IS NOT NULL AND dropped.retired_at IS NULL
                         THEN dropped.source
                         ELSE coalesce(known.source, dropped.source) END,
           files = ARRAY(SELECT unnest(known.files) UNION SELECT unnest(dropped.files)),
           missing_from = ARRAY(
               SELECT unnest(known.missing_from || dropped.missing_from)
               EXCEPT
              (SELECT unnest(known.files) EXCEPT SELECT unnest(known.missing_from))
               EXCEPT
              (SELECT unnest(dropped.files) EXCEPT SELECT unnest(dropped.missing_from))),
           embedding = coalesce(known.embedding, dropped.embedding),
           model_id = CASE WHEN known.embedding IS NULL THEN dropped.model_id
                           ELSE known.model_id END
      FROM dropped
     WHERE known.agent_identity = %(new)s
       AND known.id = dropped.kept
), moved AS (
    UPDATE memory_entries
       SET agent_identity = %(new)s
     WHERE agent_identity = %(old)s
       AND id = ANY (ARRAY(SELECT id FROM part EXCEPT SELECT id FROM twins))
    RETURNING 1
)
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM moved) + (SELECT count(*) FROM dropped),
       (SELECT count(*) FROM dropped),
       NULL::timestamptz,
       (SELECT max(id) FROM part);

-- :name remap_history
-- Move what entries said before; an entry that was merged is known by its old id.
WITH part AS (
    SELECT id
      FROM memory_entry_history
     WHERE agent_identity = %(old)s
       AND id > %(after_id)s
     ORDER BY id
     LIMIT %(limit)s
), moved AS (
    UPDATE memory_entry_history
       SET agent_identity = %(new)s
     WHERE agent_identity = %(old)s
       AND id = ANY (ARRAY(SELECT id FROM part))
    RETURNING 1
)
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM moved),
       0,
       NULL::timestamptz,
       (SELECT max(id) FROM part);

-- :name remap_turns
-- Move turns to another theme; one that it has already is merged into that row, even
-- if an agent is storing it at this moment.
WITH part AS (
    SELECT id
      FROM conversations
     WHERE agent_identity = %(old)s
       AND id > %(after_id)s
     ORDER BY id
     LIMIT %(limit)s
), gone AS (
    DELETE FROM conversations
     WHERE agent_identity = %(old)s
       AND id = ANY (ARRAY(SELECT id FROM part))
    RETURNING conversations.*
), kept AS (
    INSERT INTO conversations AS known
           (id, agent_identity, session_id, parent_session_id, role, content, ts,
            turn_key, embed, embedding, model_id, subject, metadata, tsv,
            text_hash)
           OVERRIDING SYSTEM VALUE
    SELECT id, %(new)s, session_id, parent_session_id, role, content, ts,
           turn_key, embed, embedding, model_id, subject, metadata, tsv,
           text_hash
      FROM gone
     ORDER BY id
        ON CONFLICT (agent_identity, session_id, turn_key) DO UPDATE
       SET ts = least(known.ts, EXCLUDED.ts),
           parent_session_id = coalesce(known.parent_session_id,
                                        EXCLUDED.parent_session_id),
           embedding = coalesce(known.embedding, EXCLUDED.embedding),
           model_id = CASE WHEN known.embedding IS NULL THEN EXCLUDED.model_id
                           ELSE known.model_id END,
           text_hash = CASE WHEN known.embedding IS NULL THEN EXCLUDED.text_hash
                            ELSE known.text_hash END
    RETURNING id
)
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM gone),
       (SELECT count(*) FROM kept WHERE id NOT IN (SELECT id FROM gone)),
       NULL::timestamptz,
       (SELECT max(id) FROM part);

-- :name remap_agents
-- Merge a theme's line of the registry into another's.
WITH known AS (
    SELECT FROM memory_agents WHERE agent_identity = %(new)s
), gone AS (
    DELETE FROM memory_agents
     WHERE agent_identity = %(old)s
       AND %(after_id)s = 0
       AND %(limit)s > 0
    RETURNING first_seen, last_seen, attrs
), merged AS (
    INSERT INTO memory_agents AS agent
           (agent_identity, kind, first_seen, last_seen, attrs)
    SELECT %(new)s, %(kind)s, first_seen, last_seen, attrs
      FROM gone
        ON CONFLICT (agent_identity) DO UPDATE
       SET first_seen = least(agent.first_seen, EXCLUDED.first_seen),
           last_seen = greatest(agent.last_seen, EXCLUDED.last_seen),
           attrs = EXCLUDED.attrs || agent.attrs
)
SELECT 0, count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM known)),
       NULL::timestamptz, 0::bigint
  FROM gone;

-- :name remap_edges
-- Move what a theme delegated to another theme; an edge that it has is dropped.
WITH part AS (
    SELECT id
      FROM memory_agent_edges
     WHERE parent_identity = %(old)s
       AND id > %(after_id)s
     ORDER BY id
     LIMIT %(limit)s
), gone AS (
    DELETE FROM memory_agent_edges
     WHERE parent_identity = %(old)s
       AND id = ANY (ARRAY(SELECT id FROM part))
    RETURNING memory_agent_edges.*
), moved AS (
    INSERT INTO memory_agent_edges
           (id, parent_identity, child_identity, parent_session_id, child_session_id,
            kind, task, task_hash, subject, ts, attrs)
           OVERRIDING SYSTEM VALUE
    SELECT id, %(new)s,
           CASE WHEN child_identity = %(old)s THEN %(new)s ELSE child_identity END,
           parent_session_id, child_session_id, kind, task, task_hash, subject, ts,
           attrs
      FROM gone
     ORDER BY id
        ON CONFLICT ON CONSTRAINT memory_agent_edges_unique DO NOTHING
    RETURNING 1
)
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM gone),
       (SELECT count(*) FROM gone) - (SELECT count(*) FROM moved),
       NULL::timestamptz,
       (SELECT max(id) FROM part);

-- :name remap_edge_children
-- Rename a theme where others delegated to it.
WITH part AS (
    SELECT parent_identity, id
      FROM memory_agent_edges
     WHERE child_identity = %(old)s
       AND parent_identity <> %(old)s
       AND id > %(after_id)s
     ORDER BY id
     LIMIT %(limit)s
), moved AS (
    UPDATE memory_agent_edges AS edge
       SET child_identity = %(new)s
      FROM part
     WHERE edge.parent_identity = part.parent_identity
       AND edge.id = part.id
    RETURNING 1
)
SELECT (SELECT count(*) FROM part),
       (SELECT count(*) FROM moved),
       0,
       NULL::timestamptz,
       (SELECT max(id) FROM part);
