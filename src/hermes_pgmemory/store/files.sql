-- :name file_rows
-- Rows of any theme that a file, or an ancestor of it, holds or once held.
SELECT agent_identity,
       id,
       content,
       %(file)s = ANY (files),
       %(file)s = ANY (missing_from),
       retired_at IS NOT NULL,
       EXISTS (SELECT unnest(files)
               EXCEPT
               SELECT unnest(missing_from || %(leaving)s::text[]))
  FROM memory_entries
 WHERE files && %(files)s::text[]
 ORDER BY agent_identity, id;

-- :name enter_file
-- Note that a file holds these entries: whatever was retired comes back.
UPDATE memory_entries AS known
   SET retired_at = NULL,
       updated_at = CASE WHEN known.retired_at IS NULL THEN known.updated_at
                         ELSE greatest(known.updated_at, %(at)s) END,
       files = CASE WHEN %(file)s = ANY (known.files) THEN known.files
                    ELSE known.files || %(file)s::text END,
       missing_from = array_remove(known.missing_from, %(file)s::text)
  FROM unnest(%(themes)s::text[], %(ids)s::bigint[]) AS given (theme, id)
 WHERE known.agent_identity = given.theme
   AND known.id = given.id;

-- :name leave_ancestors
-- Note that the files whose place another took hold nothing more.
UPDATE memory_entries AS known
   SET missing_from = ARRAY(SELECT unnest(known.missing_from)
                             UNION
                           (SELECT unnest(known.files)
                            INTERSECT
                            SELECT unnest(%(ancestors)s::text[])))
  FROM unnest(%(themes)s::text[], %(ids)s::bigint[]) AS given (theme, id)
 WHERE known.agent_identity = given.theme
   AND known.id = given.id
   AND known.files && %(ancestors)s::text[];

-- :name leave_file
-- Note that a file holds these entries no more, and retire those that no other holds.
WITH retired AS (
    INSERT INTO memory_entry_history
           (agent_identity, entry_id, target, change, content, subject, source, since,
            at, metadata)
    SELECT known.agent_identity, known.id, known.target, 'retired', known.content,
           known.subject, %(file)s, known.updated_at, %(at)s,
           '{"write_origin": "file_change"}'
      FROM unnest(%(themes)s::text[], %(ids)s::bigint[]) AS given (theme, id)
      JOIN memory_entries AS known
        ON known.agent_identity = given.theme
       AND known.id = given.id
     WHERE %(retire)s
       AND known.retired_at IS NULL
       AND known.files <@ (known.missing_from || %(file)s::text)
)
UPDATE memory_entries AS known
   SET missing_from = array_remove(known.missing_from, %(file)s::text)
                      || %(file)s::text,
       retired_at = CASE WHEN %(retire)s
                          AND known.files <@ (known.missing_from || %(file)s::text)
                         THEN coalesce(known.retired_at, %(at)s)
                         ELSE known.retired_at END
  FROM unnest(%(themes)s::text[], %(ids)s::bigint[]) AS given (theme, id)
 WHERE known.agent_identity = given.theme
   AND known.id = given.id;
