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
size AS MATERIALIZED (
    SELECT count(*) AS rows FROM visible
),
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
-- What an unrelated text has to this very question: some are near to everything, some
-- to nothing. The mean over a sample tells, and a small sample tells little, so that
-- the model's floor counts for four rows.
baseline AS (
    SELECT (coalesce(sum(cosine), 0) + 4 * %(floor)s) / (count(cosine) + 4) AS unrelated
      FROM (SELECT nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN') AS cosine
              FROM visible
             WHERE model_id = (SELECT model_id FROM active)
             LIMIT 256) AS sampled
)

-- :fragment signals
-- Both signals of a row in `considered`, however it was found: its cosine, and that on
-- a scale from the baseline to the model's ceiling.
cosine AS similarity,
CASE WHEN cosine IS NOT NULL  -- greatest() would make a 0 of it
     THEN least(1, greatest(0, (cosine - unrelated)
                               / greatest(%(ceiling)s - unrelated, 1e-6)))
     END AS nearness,
coalesce(lexical, 0) AS lexical

-- :fragment judged
-- What the signals come to. A ranking that finds nothing has no say in the score. The
-- relevance must hold against the number of rows as well: among more of them, one that
-- seems near is more likely by chance. Its weights were fitted so that 0.3 lets one in
-- ten questions pass that nothing answers, from 10 rows to 500.
judged AS MATERIALIZED (
    SELECT *,
           (coalesce(nearness, 0) + lexical)
               / greatest(1, max((nearness IS NOT NULL)::int) OVER ()
                             + max((lexical > 0)::int) OVER ()) AS score,
           least(1, greatest(0,
               CASE WHEN nearness IS NULL THEN lexical
                    WHEN (SELECT count(*) FROM words) = 0 THEN nearness
                    ELSE 0.8 * nearness + 0.2 * lexical
               END - 0.035 * ln(greatest((SELECT rows FROM size), 1) / 100.0)))
               AS relevance
      FROM measured
     WHERE nearness IS NOT NULL OR lexical > 0
)

-- :name search_entries
WITH visible AS NOT MATERIALIZED (
    SELECT *
      FROM memory_entries
     WHERE {scope}
       AND retired_at IS NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND content_hash <> ALL (%(exclude)s::bytea[])
),
{ranking},
measured AS (
    SELECT id, agent_identity, {signals}
      FROM candidates
      JOIN memory_entries USING (agent_identity, id)
      LEFT JOIN spoken USING (agent_identity, id)
     CROSS JOIN baseline
     CROSS JOIN LATERAL (
        SELECT CASE WHEN model_id = (SELECT model_id FROM active)
                    THEN nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN')
               END AS cosine) AS compared
),
{judged}
SELECT id, agent_identity, target, content, created_at, updated_at,
       similarity, relevance, score
  FROM judged
  JOIN memory_entries USING (agent_identity, id)
 ORDER BY round(score::numeric, 9) DESC, id
 LIMIT %(limit)s;

-- :name search_turns
-- A turn is seldom an answer alone: its neighbours in the session and the best of the
-- session add to its score, and may be an answer themselves. The weights (0.2 next to
-- it, 0.15 two away, 0.3 for the mean of the session's three best) were chosen on four
-- LoCoMo conversations.
WITH visible AS NOT MATERIALIZED (
    SELECT *
      FROM conversations
     WHERE {scope}
       AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
),
{ranking},
around AS MATERIALIZED (
    SELECT candidates.id AS candidate, turn.agent_identity, near.id, near.step
      FROM candidates
      JOIN conversations AS turn USING (agent_identity, id)
     CROSS JOIN LATERAL (
        SELECT turn.id, 0 AS step
         UNION ALL
       (SELECT id, -row_number() OVER (ORDER BY ts DESC, id DESC)
          FROM visible
         WHERE agent_identity = turn.agent_identity
           AND session_id = turn.session_id
           AND (ts, id) < (turn.ts, turn.id)
         ORDER BY ts DESC, id DESC
         LIMIT 2)
         UNION ALL
       (SELECT id, row_number() OVER (ORDER BY ts, id)
          FROM visible
         WHERE agent_identity = turn.agent_identity
           AND session_id = turn.session_id
           AND (ts, id) > (turn.ts, turn.id)
         ORDER BY ts, id
         LIMIT 2)) AS near
),
considered AS MATERIALIZED (
    SELECT DISTINCT agent_identity, id FROM around
),
measured AS (
    SELECT id, agent_identity, session_id, {signals}
      FROM considered
      JOIN conversations USING (agent_identity, id)
      LEFT JOIN spoken USING (agent_identity, id)
     CROSS JOIN baseline
     CROSS JOIN LATERAL (
        SELECT CASE WHEN model_id = (SELECT model_id FROM active)
                    THEN nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN')
               END AS cosine) AS compared
),
{judged},
neighbours AS (
    SELECT DISTINCT
           one.agent_identity,
           one.id,
           other.id AS neighbour,
           CASE abs(one.step - other.step) WHEN 1 THEN 0.2 ELSE 0.15 END AS weight
      FROM around AS one
      JOIN around AS other USING (agent_identity, candidate)
     WHERE abs(one.step - other.step) IN (1, 2)
),
next_to_it AS (
    SELECT neighbours.agent_identity,
           neighbours.id,
           sum(weight * coalesce(judged.score, 0)) AS sum,
           sum(weight) AS weight
      FROM neighbours
      LEFT JOIN judged
        ON (judged.agent_identity, judged.id)
           = (neighbours.agent_identity, neighbours.neighbour)
     GROUP BY neighbours.agent_identity, neighbours.id
),
in_session AS (
    SELECT agent_identity, session_id, avg(score) AS mean
      FROM (SELECT *,
                   row_number() OVER (PARTITION BY agent_identity, session_id
                                          ORDER BY score DESC) AS place
              FROM judged) AS ranked
     WHERE place <= 3
     GROUP BY agent_identity, session_id
),
in_context AS (
    SELECT id, agent_identity, similarity, relevance,
           (score + coalesce(next_to_it.sum, 0) + 0.3 * in_session.mean)
               / (1 + coalesce(next_to_it.weight, 0) + 0.3) AS score
      FROM judged
      JOIN in_session USING (agent_identity, session_id)
      LEFT JOIN next_to_it USING (agent_identity, id)
)
SELECT id, agent_identity, session_id, role, content, ts, similarity, relevance, score
  FROM in_context
  JOIN conversations USING (agent_identity, id)
 ORDER BY round(score::numeric, 9) DESC, id
 LIMIT %(limit)s;
