-- :fragment held
-- What each theme holds. Retired entries are not recalled and not counted as entries;
-- what is never to be embedded does not wait for a vector.
entries AS (
    SELECT agent_identity,
           count(*) FILTER (WHERE retired_at IS NULL) AS live,
           count(*) FILTER (WHERE retired_at IS NOT NULL) AS retired,
           count(*) FILTER (WHERE retired_at IS NULL AND embedding IS NULL) AS waiting
      FROM memory_entries
     GROUP BY agent_identity
), turns AS (
    SELECT agent_identity,
           count(*) AS stored,
           count(*) FILTER (WHERE embedding IS NULL AND embed) AS waiting
      FROM conversations
     GROUP BY agent_identity
)

-- :fragment counted
SELECT agent_identity,
       agents.kind,
       coalesce(entries.live, 0),
       coalesce(entries.retired, 0),
       coalesce(turns.stored, 0),
       coalesce(entries.waiting, 0),
       coalesce(turns.waiting, 0),
       agents.last_seen
  FROM agents
  FULL JOIN entries USING (agent_identity)
  FULL JOIN turns USING (agent_identity)
 ORDER BY agent_identity

-- :name has_agents
SELECT to_regclass('memory_agents') IS NOT NULL;

-- :name counts
WITH {held}, agents AS (
    SELECT agent_identity, kind, last_seen FROM memory_agents
)
{counted};

-- :name counts_without_agents
-- The same where nobody has a place to be seen in.
WITH {held}, agents AS (
    SELECT NULL::text AS agent_identity, NULL::text AS kind,
           NULL::timestamptz AS last_seen
     WHERE false
)
{counted};

-- :fragment before
-- The end of what was said before `turn` in its session, on behalf of the same contact:
-- what the ledger remembered when it was written.
(SELECT right(earlier.content, %(context_chars)s)
   FROM conversations AS earlier
  WHERE earlier.agent_identity = turn.agent_identity
    AND earlier.session_id = turn.session_id
    AND earlier.subject IS NOT DISTINCT FROM turn.subject
    AND (earlier.ts, earlier.id) < (turn.ts, turn.id)
  ORDER BY earlier.ts DESC, earlier.id DESC
  LIMIT 1)

-- :name bare_entries
-- Between which ids entries wait for a vector: NULL where none does.
SELECT min(id), max(id)
  FROM memory_entries
 WHERE embedding IS NULL
   AND retired_at IS NULL;

-- :name bare_turns
SELECT min(id), max(id)
  FROM conversations
 WHERE embedding IS NULL
   AND embed;

-- :name unembedded_entries
-- Entries that wait for a vector, oldest first.
SELECT id, agent_identity, content, ''
  FROM memory_entries
 WHERE embedding IS NULL
   AND retired_at IS NULL
   AND id > %(after)s
   AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s)
 ORDER BY id
 LIMIT %(limit)s;

-- :name unembedded_turns
-- Turns that wait for a vector, oldest first, and what each was said in answer to.
SELECT id, agent_identity, content, coalesce({before}, '')
  FROM conversations AS turn
 WHERE embedding IS NULL
   AND embed
   AND id > %(after)s
   AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s)
 ORDER BY id
 LIMIT %(limit)s;

-- :name set_entry_vectors
-- Give entries their vectors, but for those that got one, or other content, meanwhile.
-- Returns how many got theirs.
WITH done AS (
    UPDATE memory_entries AS known
       SET embedding = given.embedding,
           model_id = %(model_id)s::smallint
      FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(content_hashes)s::bytea[],
                  %(embeddings)b::halfvec[])
               AS given (theme, id, content_hash, embedding)
     WHERE known.agent_identity = given.theme
       AND known.id = given.id
       AND known.embedding IS NULL
       AND known.content_hash = given.content_hash
    RETURNING 1
)
SELECT count(*) FROM done;

-- :name set_turn_vectors
-- Give turns their vectors, but for those that got one meanwhile; what was said never
-- changes. Returns how many got theirs.
WITH done AS (
    UPDATE conversations AS known
       SET embedding = given.embedding,
           model_id = %(model_id)s::smallint,
           text_hash = given.text_hash
      FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(embeddings)b::halfvec[],
                  %(text_hashes)s::bytea[])
               AS given (theme, id, embedding, text_hash)
     WHERE known.agent_identity = given.theme
       AND known.id = given.id
       AND known.embedding IS NULL
    RETURNING 1
)
SELECT count(*) FROM done;
