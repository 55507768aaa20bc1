-- What an operator looks at. Every statement reads a page by an index, but for those
-- that count: these are asked in the background, and seldom.

-- :name activity
-- How many rows each theme got per hour, by their own time; hours without any are left
-- out. `since` is the beginning of an hour.
SELECT theme, at, sum(entries)::bigint, sum(turns)::bigint
  FROM unnest(%(themes)s::text[]) AS asked (theme)
 CROSS JOIN LATERAL (
    SELECT date_bin('1 hour', updated_at, %(since)s) AS at, count(*) AS entries, 0 AS turns
      FROM memory_entries
     WHERE agent_identity = theme
       AND target IN ('memory', 'user')
       AND updated_at >= %(since)s
     GROUP BY 1
     UNION ALL
    SELECT date_bin('1 hour', ts, %(since)s), 0, count(*)
      FROM conversations
     WHERE agent_identity = theme
       AND ts >= %(since)s
     GROUP BY 1) AS hours
 GROUP BY theme, at
 ORDER BY theme, at;

-- :name private_rows
-- How many rows of each theme belong to one contact.
SELECT theme, sum(rows)::bigint
  FROM (SELECT agent_identity AS theme, count(*) AS rows
          FROM memory_entries
         WHERE subject IS NOT NULL
         GROUP BY agent_identity
         UNION ALL
        SELECT agent_identity, count(*)
          FROM conversations
         WHERE subject IS NOT NULL
         GROUP BY agent_identity) AS held
 GROUP BY theme;

-- :fragment entry
-- A text that belongs to one contact leaves the database only where that is wanted.
id,
target,
CASE WHEN subject IS NULL OR %(show_private)s
     THEN left(content, %(longest)s) END AS content,
length(content) > %(longest)s AS clipped,
subject IS NOT NULL AS private,
created_at,
updated_at,
retired_at,
metadata ->> 'platform' AS platform,
embedding IS NOT NULL AS embedded,
cardinality(files) AS files,
cardinality(missing_from) AS missing

-- :name browse_entries
-- One theme's entries, latest change first, from a place on.
SELECT page.*
  FROM unnest(%(targets)s::text[]) AS asked (wanted)
 CROSS JOIN LATERAL (
    SELECT {entry}
      FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND target = wanted
       AND (updated_at, id) < (coalesce(%(at)s::timestamptz, 'infinity'), %(id)s)
       AND (%(retired)s::boolean IS NULL OR (retired_at IS NOT NULL) = %(retired)s)
     ORDER BY updated_at DESC, id DESC
     LIMIT %(limit)s) AS page
 ORDER BY updated_at DESC, id DESC
 LIMIT %(limit)s;

-- :name look_at_entry
SELECT {entry}
  FROM memory_entries
 WHERE agent_identity = %(theme)s
   AND id = %(id)s;

-- :name recent_sessions
-- The sessions among the latest turns of a theme before a time, and what each began
-- with there. How far the look went comes with every row, as does how much was hidden.
WITH recent AS MATERIALIZED (
    SELECT session_id, ts, role, left(content, 200) AS content,
           subject IS NOT NULL AND NOT %(show_private)s AS hidden
      FROM conversations
     WHERE agent_identity = %(theme)s
       AND ts < coalesce(%(at)s::timestamptz, 'infinity')
     ORDER BY ts DESC
     LIMIT %(looked_at)s
), looked AS (
    SELECT count(*) AS turns,
           count(*) FILTER (WHERE hidden) AS hidden,
           min(ts) AS until
      FROM recent
), sessions AS (
    SELECT session_id,
           count(*) AS turns,
           min(ts) AS first,
           max(ts) AS last,
           (array_agg(content ORDER BY ts) FILTER (WHERE role = 'user'))[1] AS topic
      FROM recent
     WHERE NOT hidden
     GROUP BY session_id
)
SELECT session_id, sessions.turns, first, last, topic,
       looked.turns, looked.hidden, until
  FROM looked
  LEFT JOIN sessions ON true
 ORDER BY last DESC, session_id;

-- :name read_session
-- One session's turns in the order they were said, behind a place.
SELECT id,
       role,
       CASE WHEN subject IS NULL OR %(show_private)s
            THEN left(content, %(longest)s) END AS content,
       length(content) > %(longest)s AS clipped,
       subject IS NOT NULL AS private,
       ts AS at,
       metadata ->> 'platform' AS platform,
       embedding IS NOT NULL AS embedded,
       parent_session_id
  FROM conversations
 WHERE agent_identity = %(theme)s
   AND session_id = %(session_id)s
   AND (ts, id) > (coalesce(%(at)s::timestamptz, '-infinity'), %(id)s)
 ORDER BY ts, id
 LIMIT %(limit)s;

-- :name before_turn
-- The place from which on a turn is shown with a few of those before it.
SELECT ts, id
  FROM conversations AS earlier
 WHERE agent_identity = %(theme)s
   AND session_id = %(session_id)s
   AND (ts, id) < (SELECT ts, id
                     FROM conversations
                    WHERE agent_identity = %(theme)s
                      AND id = %(turn)s)
 ORDER BY ts DESC, id DESC
OFFSET %(few)s
 LIMIT 1;

-- :fragment edge
parent_identity,
child_identity,
CASE WHEN subject IS NULL OR %(show_private)s THEN parent_session_id ELSE '' END
    AS parent_session_id,
CASE WHEN subject IS NULL OR %(show_private)s THEN child_session_id ELSE '' END
    AS child_session_id,
CASE WHEN subject IS NULL OR %(show_private)s THEN left(task, %(longest)s) END AS task,
subject IS NOT NULL AS private,
ts

-- :name delegations
-- The latest delegations; jumps from one parent to the next.
WITH RECURSIVE parents (name) AS (
    SELECT min(parent_identity) FROM memory_agent_edges
    UNION ALL
    SELECT (SELECT min(parent_identity)
              FROM memory_agent_edges
             WHERE parent_identity > name)
      FROM parents
     WHERE name IS NOT NULL
)
SELECT latest.*
  FROM parents
 CROSS JOIN LATERAL (
    SELECT {edge}
      FROM memory_agent_edges
     WHERE parent_identity = name
       AND ts < coalesce(%(at)s::timestamptz, 'infinity')
     ORDER BY ts DESC
     LIMIT %(limit)s) AS latest
 ORDER BY ts DESC, child_session_id
 LIMIT %(limit)s;

-- :name delegations_of_session
-- What one session delegated, and what delegated to it.
SELECT {edge}
  FROM memory_agent_edges
 WHERE parent_identity = %(theme)s
   AND parent_session_id = %(session_id)s
 UNION
SELECT {edge}
  FROM memory_agent_edges
 WHERE child_session_id = %(session_id)s
 ORDER BY ts, child_session_id
 LIMIT %(limit)s;
