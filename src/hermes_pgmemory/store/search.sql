-- :fragment scope
-- Who may see a row; the only place that says so.
(%(theme)s::text IS NULL OR agent_identity = %(theme)s)
AND (subject IS NOT DISTINCT FROM %(subject)s
     OR (%(include_shared)s AND subject IS NULL))

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
-- By words: any of the question's words will do, and a rare one says more. The
-- lexemes are quoted, so nothing a user types is an operator.
words AS MATERIALIZED (
    SELECT lexeme,
           ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''')::tsquery
               AS query
      FROM unnest(to_tsvector(
               (SELECT value #>> '{}' FROM memory_settings
                 WHERE key = 'text_search_config')::regconfig,
               left(%(text)s, 20000)))
     ORDER BY positions[1]
     LIMIT 64
),
matches AS MATERIALIZED (
    SELECT lexeme, agent_identity, id
      FROM words
      JOIN visible ON tsv @@ query
),
weights AS MATERIALIZED (
    SELECT lexeme,
           ln(1 + (SELECT count(*) FROM visible)
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
-- What is near to this question without answering it: the mean over a sample.
baseline AS (
    SELECT avg(nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN')) AS mean,
           count(embedding) AS sample
      FROM (SELECT embedding
              FROM visible
             WHERE model_id = (SELECT model_id FROM active)
             LIMIT 256) AS sampled
),
candidates AS (
    SELECT agent_identity, id FROM nearest
     UNION
    (SELECT agent_identity, id FROM spoken ORDER BY lexical DESC, id LIMIT %(pool)s)
)

-- :fragment signals
-- Both signals of each candidate, however it was found.
CASE WHEN model_id = (SELECT model_id FROM active)
     THEN nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN') END AS similarity,
coalesce(lexical, 0) AS lexical,
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
),
{ranking}
SELECT id, agent_identity, target, content, created_at, updated_at, {signals}
  FROM candidates
  JOIN memory_entries USING (agent_identity, id)
  LEFT JOIN spoken USING (agent_identity, id);

-- :name search_turns
-- Candidates among conversation turns, in no order.
WITH visible AS NOT MATERIALIZED (
    SELECT *
      FROM conversations
     WHERE {scope}
       AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
),
{ranking}
SELECT id, agent_identity, session_id, role, content, ts, {signals}
  FROM candidates
  JOIN conversations USING (agent_identity, id)
  LEFT JOIN spoken USING (agent_identity, id);
