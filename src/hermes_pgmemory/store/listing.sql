-- :name list_entries
-- The entries that the caller may see, newest first; of these, those that hold a text
-- as it is, where one is given.
SELECT id, agent_identity AS theme, target, content, created_at, updated_at,
       metadata ->> 'platform' AS platform
  FROM memory_entries
 WHERE {scope}
   AND retired_at IS NULL
   AND (%(target)s::text IS NULL OR target = %(target)s)
   AND (%(holding)s::text = '' OR position(%(holding)s IN content) > 0)
 ORDER BY updated_at DESC, id DESC
 LIMIT %(limit)s;
