-- :fragment scope
-- Who may see a row; the only place that says so.
(%(theme)s::text IS NULL OR agent_identity = %(theme)s)
AND (subject IS NOT DISTINCT FROM %(subject)s
     OR (%(include_shared)s AND subject IS NULL))

-- :fragment on_platform
(%(platform)s::text IS NULL OR lower(metadata ->> 'platform') = lower(%(platform)s))

-- :fragment ranking
-- Works on `visible`: the rows that scope and filters leave, so that a filter can
-- never make an answer short. Yields `candidates`, the best of either ranking.
--
-- By meaning: exact, among the vectors of the active model.
active AS (
    SELECT value::smallint AS model_id FROM memory_settings WHERE key = 'active_model_id'
),
nearest AS (
    SELECT agent_identity, id
      FROM visible
     WHERE %(vector)b::halfvec IS NOT NULL
       AND model_id = (SELECT model_id FROM active)
     ORDER BY embedding <=> %(vector)b::halfvec, id
     LIMIT %(pool)s
),
-- By words: any of the question's words will do, and a rare one says more.
size AS MATERIALIZED (
    SELECT count(*) AS rows FROM visible
),
words AS MATERIALIZED (
    SELECT lexeme, query FROM ({asked}) AS asked ORDER BY place LIMIT 64
),
matches AS MATERIALIZED (
    SELECT lexeme, agent_identity, id
      FROM words
      JOIN visible ON tsv @@ query
),
weights AS MATERIALIZED (
    SELECT lexeme,
           ln(1 + (SELECT rows FROM size)
                  / greatest(count(matches.id), 0.5)::float8) AS weight
      FROM words
      LEFT JOIN matches USING (lexeme)
     GROUP BY lexeme
),
-- Which part of the question's words, by weight, a row holds: in (0, 1].
spoken AS MATERIALIZED (
    SELECT agent_identity,
           id,
           sum(weight) / (SELECT sum(weight) FROM weights) AS lexical
      FROM matches
      JOIN weights USING (lexeme)
     GROUP BY agent_identity, id
),
candidates AS MATERIALIZED (
    SELECT agent_identity, id FROM nearest
     UNION
    (SELECT agent_identity, id FROM spoken ORDER BY lexical DESC, id LIMIT %(pool)s)
),
-- What is near to this question without answering it: the mean over a sample.
baseline AS MATERIALIZED (
    SELECT avg(nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN')) AS mean,
           count(embedding) AS sample
      FROM (SELECT embedding
              FROM visible
             WHERE model_id = (SELECT model_id FROM active)
             LIMIT 256) AS sampled
)

-- :fragment signals
-- Both signals of a row, however it was found, and what they are judged against. The
-- words are counted once more, row by row: a join with all that hold one costs more.
CASE WHEN model_id = (SELECT model_id FROM active)
     THEN nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN') END AS similarity,
coalesce((SELECT sum(weight) FROM words JOIN weights USING (lexeme) WHERE tsv @@ query)
         / (SELECT sum(weight) FROM weights), 0) AS lexical,
(SELECT rows FROM size) AS rows,
(SELECT count(*) FROM words) AS words,
(SELECT mean FROM baseline) AS mean,
(SELECT sample FROM baseline) AS sample

-- :name search_entries
-- Candidates among memory entries, in no order.
WITH visible AS NOT MATERIALIZED (
    SELECT *
      FROM memory_entries
     WHERE {scope}
       AND retired_at IS NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND content_hash <> ALL (%(exclude)s::bytea[])
       AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s)
       AND (%(until)s::timestamptz IS NULL OR updated_at < %(until)s)
       AND {on_platform}
),
{ranking}
SELECT agent_identity, id, updated_at AS at, {signals}
  FROM candidates
  JOIN memory_entries USING (agent_identity, id);

-- :name search_turns
-- Candidates among conversation turns and the two turns before and after each, in no
-- order. A candidate comes with the ids of all these, its own among them.
WITH visible AS NOT MATERIALIZED (
    SELECT *
      FROM conversations
     WHERE {scope}
       AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
       AND (%(since)s::timestamptz IS NULL OR ts >= %(since)s)
       AND (%(until)s::timestamptz IS NULL OR ts < %(until)s)
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND {on_platform}
),
{ranking},
chains AS MATERIALIZED (
    SELECT turn.agent_identity,
           turn.id,
           before.ids || turn.id || after.ids AS chain
      FROM candidates
      JOIN conversations AS turn USING (agent_identity, id)
     CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(id ORDER BY ts, id), '{}') AS ids
          FROM (SELECT id, ts
                  FROM visible
                 WHERE agent_identity = turn.agent_identity
                   AND session_id = turn.session_id
                   AND (ts, id) < (turn.ts, turn.id)
                 ORDER BY ts DESC, id DESC
                 LIMIT 2) AS two) AS before
     CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(id ORDER BY ts, id), '{}') AS ids
          FROM (SELECT id, ts
                  FROM visible
                 WHERE agent_identity = turn.agent_identity
                   AND session_id = turn.session_id
                   AND (ts, id) > (turn.ts, turn.id)
                 ORDER BY ts, id
                 LIMIT 2) AS two) AS after
),
considered AS MATERIALIZED (
    SELECT agent_identity,
           member AS id,
           max(chain) FILTER (WHERE member = chains.id) AS chain
      FROM chains
     CROSS JOIN unnest(chain) AS member
     GROUP BY agent_identity, member
)
SELECT agent_identity, id, ts AS at, session_id, chain, {signals}
  FROM considered
  JOIN conversations USING (agent_identity, id);

-- :fragment chosen
-- Rows by two arrays of the same length; `place` is the place in them, from 1.
unnest(%(themes)s::text[], %(ids)s::bigint[])
    WITH ORDINALITY AS chosen (agent_identity, id, place)

-- :name read_entries
SELECT id, agent_identity, target, content, created_at, updated_at,
       metadata ->> 'platform' AS platform
  FROM {chosen}
  JOIN memory_entries USING (agent_identity, id)
 ORDER BY place;

-- :fragment beside
-- Whoever may see a turn may see what was said around it: in its session, by or to the
-- same contact.
SELECT other.role, left(other.content, %(excerpt)s) AS content
  FROM conversations AS other
 WHERE other.agent_identity = turn.agent_identity
   AND other.session_id = turn.session_id
   AND other.subject IS NOT DISTINCT FROM turn.subject

-- :name read_turns
SELECT id, agent_identity, session_id, turn.role, turn.content, ts,
       metadata ->> 'platform' AS platform,
       before.role AS role_before, before.content AS content_before,
       after.role AS role_after, after.content AS content_after
  FROM {chosen}
  JOIN conversations AS turn USING (agent_identity, id)
  LEFT JOIN LATERAL (
    {beside}
       AND (other.ts, other.id) < (turn.ts, turn.id)
     ORDER BY other.ts DESC, other.id DESC
     LIMIT 1) AS before ON true
  LEFT JOIN LATERAL (
    {beside}
       AND (other.ts, other.id) > (turn.ts, turn.id)
     ORDER BY other.ts, other.id
     LIMIT 1) AS after ON true
 ORDER BY place;
