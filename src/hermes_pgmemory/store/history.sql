-- What entries said before.

-- :name has_history
-- Whether anything is kept of entries that changed, before an instant if one is given.
SELECT EXISTS (SELECT
                 FROM memory_entry_history
                WHERE (%(before)s::timestamptz IS NULL OR at < %(before)s)
                  AND (%(theme)s::text IS NULL OR agent_identity = %(theme)s));

-- :name read_history
-- A theme's changes, latest first, each with what took the text's place: what that entry
-- said until its own next change, or says now. Rows of contacts are theirs: only who
-- names one is shown them.
SELECT entry_id, target, change, content, since, at, metadata,
       coalesce(
           (SELECT later.content
              FROM memory_entry_history AS later
             WHERE later.agent_identity = past.agent_identity
               AND later.entry_id = past.successor_id
               AND (later.at, later.id) > (past.at, past.id)
             ORDER BY later.at, later.id
             LIMIT 1),
           (SELECT entry.content
              FROM memory_entries AS entry
             WHERE entry.agent_identity = past.agent_identity
               AND entry.id = past.successor_id))
  FROM memory_entry_history AS past
 WHERE agent_identity = %(theme)s
   AND subject IS NOT DISTINCT FROM %(subject)s
   AND (%(match)s::text IS NULL OR position(lower(%(match)s) IN lower(content)) > 0)
 ORDER BY at DESC, id DESC
 LIMIT %(limit)s;
