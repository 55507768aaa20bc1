-- :fragment scope
-- Who may see a row; the only place that says so. Spelled so that the planner can tell
-- how many they are: of IS NOT DISTINCT FROM it thinks that hardly any row passes.
(%(theme)s::text IS NULL OR agent_identity = %(theme)s)
AND (subject = %(subject)s::text
     OR (subject IS NULL AND (%(subject)s::text IS NULL OR %(include_shared)s)))

-- :fragment on_platform
(%(platform)s::text IS NULL OR lower(metadata ->> 'platform') = lower(%(platform)s))

-- :fragment visible_entries
visible AS NOT MATERIALIZED (
    SELECT agent_identity, id, embedding, model_id, tsv
      FROM memory_entries
     WHERE {scope}
       AND retired_at IS NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND content_hash <> ALL (%(exclude)s::bytea[])
       AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s)
       AND (%(until)s::timestamptz IS NULL OR updated_at < %(until)s)
       AND {on_platform}
)

-- :fragment visible_turns
visible AS NOT MATERIALIZED (
    SELECT agent_identity, id, ts AS at, session_id, embedding, model_id, tsv
      FROM conversations
     WHERE {scope}
       AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
       AND (%(since)s::timestamptz IS NULL OR ts >= %(since)s)
       AND (%(until)s::timestamptz IS NULL OR ts < %(until)s)
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND {on_platform}
)

-- :fragment question
-- The model whose vectors the question's can be compared with: a question that another
-- model embedded is compared with none.
active AS (
    SELECT id AS model_id
      FROM memory_models
     WHERE id = (SELECT value::smallint
                   FROM memory_settings
                  WHERE key = 'active_model_id')
       AND (%(model)s::text IS NULL OR name = %(model)s)
),
-- Any of the question's words will do, and a rare one says more. Among many rows the
-- statistics tell which share of all holds a common word.
words AS MATERIALIZED (
    SELECT lexeme, query, coalesce(share, 0) AS share
      FROM (SELECT lexeme, query FROM ({asked}) AS asked ORDER BY place LIMIT 64) AS few
      LEFT JOIN unnest(%(common)s::text[], %(shares)s::float8[])
                AS known (lexeme, share) USING (lexeme)
)

-- :fragment ranking
-- Of `nearest` and `matches`, among the `size` rows there are to choose from, makes
-- `candidates`: the best of either ranking.
weights AS MATERIALIZED (
    SELECT lexeme,
           ln(1 + (SELECT rows FROM size)
                  / greatest(count(matches.id),
                             share * (SELECT rows FROM size), 0.5)::float8) AS weight
      FROM words
      LEFT JOIN matches USING (lexeme)
     GROUP BY lexeme, share
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
    SELECT 1 - avg(distance) AS mean, count(*) AS sample FROM sampled
)

-- :fragment measured
-- What a row's signals are judged against.
(SELECT count(*) FROM nearest) AS near,
(SELECT rows FROM size) AS rows,
(SELECT count(*) FROM words) AS words,
(SELECT mean FROM baseline) AS mean,
(SELECT sample FROM baseline) AS sample

-- :fragment few
-- Few rows are read one by one, and once: the indexes span all themes, and would bring
-- every theme's rows.
{question},
scanned AS MATERIALIZED (
    SELECT agent_identity, id, tsv,
           CASE WHEN model_id = (SELECT model_id FROM active)
                THEN nullif(embedding <=> %(vector)b::halfvec, 'NaN') END AS distance
      FROM visible
),
size AS MATERIALIZED (
    SELECT count(*) AS rows FROM scanned
),
nearest AS MATERIALIZED (
    SELECT agent_identity, id
      FROM scanned
     WHERE distance IS NOT NULL
     ORDER BY distance, id
     LIMIT %(pool)s
),
matches AS MATERIALIZED (
    SELECT lexeme, agent_identity, id FROM scanned JOIN words ON tsv @@ query
),
sampled AS (
    SELECT distance FROM scanned WHERE distance IS NOT NULL LIMIT 256
),
{ranking}

-- :fragment many
-- Among many rows indexes help. The nearest are those of what a sealed index knows, as
-- well as it knows, and of the tail behind its watermark, exactly; without a watermark
-- all is tail. An index over all themes may run dry before it has found enough of them:
-- `near` tells, and one asks again.
{question},
sealed AS MATERIALIZED (
    SELECT agent_identity, id, embedding <=> %(vector)b::halfvec AS distance
      FROM visible
     WHERE %(vector)b::halfvec IS NOT NULL
       AND model_id = (SELECT model_id FROM active)
       AND id <= %(watermark)s::bigint
     ORDER BY embedding <=> %(vector)b::halfvec
     LIMIT %(pool)s
),
tail AS MATERIALIZED (
    SELECT agent_identity, id, embedding <=> %(vector)b::halfvec AS distance
      FROM visible
     WHERE %(vector)b::halfvec IS NOT NULL
       AND model_id = (SELECT model_id FROM active)
       AND (%(watermark)s::bigint IS NULL OR id > %(watermark)s)
     ORDER BY embedding <=> %(vector)b::halfvec, id
     LIMIT %(pool)s
),
nearest AS MATERIALIZED (
    SELECT agent_identity, id
      FROM (SELECT * FROM sealed UNION ALL SELECT * FROM tail) AS either
     ORDER BY distance, id
     LIMIT %(pool)s
),
size AS MATERIALIZED (
    SELECT %(rows)s::bigint AS rows
),
-- Only the rarest words bring candidates, as many words as keep within the `budget`,
-- each so many rows at most; the others only count in the ranking.
rare AS MATERIALIZED (
    SELECT lexeme, query
      FROM (SELECT lexeme,
                   query,
                   sum(share) OVER rarest AS total,
                   row_number() OVER rarest AS place
              FROM words
            WINDOW rarest AS (ORDER BY share, lexeme ROWS UNBOUNDED PRECEDING)) AS ranked
     WHERE total <= %(budget)s::float8 OR place = 1
),
matches AS MATERIALIZED (
    SELECT lexeme, agent_identity, id
      FROM rare
     CROSS JOIN LATERAL (
        SELECT agent_identity, id FROM visible WHERE tsv @@ query LIMIT 1000) AS holding
),
sampled AS (
    SELECT nullif(embedding <=> %(vector)b::halfvec, 'NaN') AS distance
      FROM visible
     WHERE model_id = (SELECT model_id FROM active)
     LIMIT 256
),
{ranking}

-- :fragment signals
-- The words are counted once more, row by row: how many rows hold one the planner cannot
-- know, and a join with these would cost more.
CASE WHEN model_id = (SELECT model_id FROM active)
     THEN nullif(1 - (embedding <=> %(vector)b::halfvec), 'NaN') END AS similarity,
coalesce((SELECT sum(weight) FROM words JOIN weights USING (lexeme) WHERE tsv @@ query)
         / (SELECT sum(weight) FROM weights), 0) AS lexical,
{measured}

-- :fragment described
agent_identity, id, target, created_at, updated_at, updated_at AS at,
metadata ->> 'platform' AS platform,
CASE WHEN octet_length(content) <= %(short)s THEN content END AS content

-- :name search_few_entries
-- Candidates among memory entries, in no order.
WITH {visible_entries},
{few}
SELECT {described}, {signals}
  FROM candidates
  JOIN memory_entries USING (agent_identity, id);

-- :name search_many_entries
WITH {visible_entries},
{many}
SELECT {described}, {signals}
  FROM candidates
  JOIN memory_entries USING (agent_identity, id);

-- :fragment considered
-- The candidates and the two turns before and after each. A candidate comes with the
-- ids of all these, its own among them.
chains AS MATERIALIZED (
    SELECT turn.agent_identity,
           turn.id,
           before.ids || turn.id || after.ids AS chain
      FROM candidates
      JOIN conversations AS turn USING (agent_identity, id)
     CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(id ORDER BY at, id), '{}') AS ids
          FROM (SELECT id, at
                  FROM visible
                 WHERE agent_identity = turn.agent_identity
                   AND session_id = turn.session_id
                   AND (at, id) < (turn.ts, turn.id)
                 ORDER BY at DESC, id DESC
                 LIMIT 2) AS two) AS before
     CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(id ORDER BY at, id), '{}') AS ids
          FROM (SELECT id, at
                  FROM visible
                 WHERE agent_identity = turn.agent_identity
                   AND session_id = turn.session_id
                   AND (at, id) > (turn.ts, turn.id)
                 ORDER BY at, id
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

-- :name search_few_turns
-- Candidates among conversation turns and what was said around them, in no order.
WITH {visible_turns},
{few},
{considered}
SELECT agent_identity, id, ts AS at, session_id, chain, {signals}
  FROM considered
  JOIN conversations USING (agent_identity, id);

-- :name search_many_turns
WITH {visible_turns},
{many},
{considered}
SELECT agent_identity, id, ts AS at, session_id, chain, {signals}
  FROM considered
  JOIN conversations USING (agent_identity, id);

-- :name count_visible_entries
-- How many rows a search has to choose from, up to a number.
WITH {visible_entries}
SELECT count(*) AS rows FROM (SELECT FROM visible LIMIT %(most)s) AS counted;

-- :name count_visible_turns
WITH {visible_turns}
SELECT count(*) AS rows FROM (SELECT FROM visible LIMIT %(most)s) AS counted;

-- :fragment chosen
-- Rows by two arrays of the same length; `place` is the place in them, from 1.
unnest(%(themes)s::text[], %(ids)s::bigint[])
    WITH ORDINALITY AS chosen (agent_identity, id, place)

-- :name read_contents
SELECT id, content
  FROM {chosen}
  JOIN memory_entries USING (agent_identity, id);

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
