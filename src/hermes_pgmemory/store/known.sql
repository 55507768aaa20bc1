-- :fragment ours
-- The active model, if it is the caller's.
(SELECT id
   FROM memory_models
  WHERE id = (SELECT value::smallint
                FROM memory_settings
               WHERE key = 'active_model_id')
    AND (%(model)s::text IS NULL OR name = %(model)s))

-- :name known_entries
-- Vectors of texts that the same theme holds on behalf of the same contact; places count
-- from 1.
SELECT place, known.embedding
  FROM unnest(%(themes)s::text[], %(subjects)s::text[], %(hashes)s::bytea[])
           WITH ORDINALITY AS asked (theme, subject, hash, place)
 CROSS JOIN LATERAL (
    SELECT embedding::real[] AS embedding
      FROM memory_entries
     WHERE agent_identity = asked.theme
       AND target IN ('memory', 'user')
       AND content_hash = asked.hash
       AND subject IS NOT DISTINCT FROM asked.subject
       AND model_id = {ours}
     LIMIT 1) AS known;

-- :name known_turns
SELECT place, known.embedding
  FROM unnest(%(themes)s::text[], %(subjects)s::text[], %(hashes)s::bytea[])
           WITH ORDINALITY AS asked (theme, subject, hash, place)
 CROSS JOIN LATERAL (
    SELECT embedding::real[] AS embedding
      FROM conversations
     WHERE agent_identity = asked.theme
       AND text_hash = asked.hash
       AND subject IS NOT DISTINCT FROM asked.subject
       AND model_id = {ours}
     LIMIT 1) AS known;
