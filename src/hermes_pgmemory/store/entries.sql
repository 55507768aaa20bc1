-- :name lexemes_of
-- The words of each text, in its order.
SELECT {lexemes}::text
  FROM unnest(%(contents)s::text[]) WITH ORDINALITY AS said (content, place)
 ORDER BY place;

-- :fragment words
-- Of a text in ASCII `lexemes` says no more than this, and takes twice the statement's
-- time to say it; the others' come ready made.
coalesce(%(lexemes)s::tsvector,
         to_tsvector(%(config)s::regconfig, left(%(content)s, 100000)))

-- :fragment hash
sha256(convert_to(%(content)s, 'UTF8'))

-- :fragment columns
(agent_identity, target, content, content_hash, embedding, model_id, subject, source,
 created_at, updated_at, metadata, tsv, files)

-- :fragment known
-- What the host says again is left alone, but for what it lacks: a retired row
-- comes back, a further file is noted, and a vector is taken where there was none.
ON CONFLICT (agent_identity, target, content_hash, subject) DO UPDATE
   SET retired_at = NULL,
       updated_at = CASE WHEN known.retired_at IS NULL THEN known.updated_at
                         ELSE greatest(known.updated_at, EXCLUDED.updated_at) END,
       source = CASE WHEN known.retired_at IS NULL
                     THEN coalesce(known.source, EXCLUDED.source)
                     ELSE EXCLUDED.source END,
       files = CASE WHEN EXCLUDED.files <@ known.files THEN known.files
                    ELSE known.files || EXCLUDED.files END,
       missing_from = array_remove(known.missing_from, EXCLUDED.source),
       embedding = coalesce(known.embedding, EXCLUDED.embedding),
       model_id = CASE WHEN known.embedding IS NULL THEN EXCLUDED.model_id
                       ELSE known.model_id END
 WHERE known.retired_at IS NOT NULL
    OR NOT EXCLUDED.files <@ known.files
    OR EXCLUDED.files && known.missing_from
    OR (known.embedding IS NULL AND EXCLUDED.embedding IS NOT NULL)

-- :fragment victim
-- The one entry that an event speaks of: the whole text where the host tells it,
-- else a literal substring. Several may hold it, because several files are mirrored;
-- what the event's own file holds comes first. `shared` tells that another does, too.
SELECT id,
       content,
       content_hash,
       updated_at,
       %(source)s::text IS NOT NULL
       AND EXISTS (SELECT unnest(files)
                   EXCEPT
                   SELECT unnest(missing_from || %(source)s::text)) AS shared
  FROM memory_entries
 WHERE agent_identity = %(theme)s
   AND target = %(target)s
   AND subject IS NOT DISTINCT FROM %(subject)s
   AND retired_at IS NULL
   AND CASE WHEN %(previous)s::text IS NULL
            THEN %(old_text)s <> '' AND position(%(old_text)s IN content) > 0
            ELSE content_hash = sha256(convert_to(%(previous)s, 'UTF8')) END
 ORDER BY (%(source)s = ANY (files) AND NOT %(source)s = ANY (missing_from)) IS TRUE DESC,
          (source IS NOT DISTINCT FROM %(source)s) DESC, updated_at DESC, id DESC
 LIMIT 1

-- :fragment history
-- What the victim said, before it says so no more.
INSERT INTO memory_entry_history
       (agent_identity, entry_id, successor_id, target, change, content, subject, source,
        since, at, metadata)

-- :fragment left
-- What another file holds stays for that one.
UPDATE memory_entries AS known
   SET missing_from = array_remove(known.missing_from, %(source)s)
                      || %(source)s::text
  FROM victim
 WHERE victim.shared
   AND known.agent_identity = %(theme)s
   AND known.id = victim.id
   AND %(source)s = ANY (known.files)

-- :name add_entry
-- Add an entry, unless the theme knows it.
INSERT INTO memory_entries AS known {columns}
VALUES (%(theme)s, %(target)s, %(content)s, {hash}, %(embedding)b::halfvec,
        %(model_id)s, %(subject)s, %(source)s, %(at)s, %(at)s, %(metadata)s, {words},
        %(files)s::text[])
{known};

-- :name replace_entry
-- Give an entry new content. Where that is already another entry, the two become
-- one; where nothing matches, or another file holds the old content, the new one is
-- added, as the host's file has it.
WITH victim AS (
    SELECT id, content, updated_at, content_hash = {hash} AS same,
           shared AND content_hash <> {hash} AS shared
      FROM ({victim}) AS found
), twin AS (
    SELECT id
      FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND target = %(target)s
       AND subject IS NOT DISTINCT FROM %(subject)s
       AND content_hash = {hash}
       AND id NOT IN (SELECT id FROM victim)
), noted AS (
    {history}
    SELECT %(theme)s, victim.id, coalesce(twin.id, victim.id), %(target)s, 'replaced',
           victim.content, %(subject)s, %(source)s, victim.updated_at, %(at)s,
           %(metadata)s
      FROM victim
      LEFT JOIN twin ON true
     WHERE NOT victim.same
       AND NOT victim.shared
), merged AS (
    DELETE FROM memory_entries
     USING victim, twin
     WHERE agent_identity = %(theme)s
       AND memory_entries.id = victim.id
       AND NOT victim.shared
), stays AS (
    {left}
), changed AS (
    UPDATE memory_entries
       SET content = %(content)s,
           content_hash = {hash},
           embedding = %(embedding)b::halfvec,
           model_id = %(model_id)s,
           source = %(source)s,
           files = CASE WHEN victim.same AND NOT %(files)s::text[] <@ files
                        THEN files || %(files)s::text[]
                        WHEN victim.same THEN files
                        ELSE %(files)s::text[] END,
           missing_from = CASE WHEN victim.same
                               THEN array_remove(missing_from, %(source)s)
                               ELSE '{}' END,
           updated_at = %(at)s,
           metadata = %(metadata)s,
           tsv = {words}
      FROM victim
     WHERE agent_identity = %(theme)s
       AND memory_entries.id = victim.id
       AND NOT victim.shared
       AND NOT EXISTS (SELECT FROM twin)
)
INSERT INTO memory_entries AS known {columns}
SELECT %(theme)s, %(target)s, %(content)s, {hash}, %(embedding)b::halfvec,
       %(model_id)s, %(subject)s, %(source)s, %(at)s, %(at)s, %(metadata)s, {words},
       %(files)s::text[]
 WHERE NOT EXISTS (SELECT FROM victim WHERE NOT shared)
    OR EXISTS (SELECT FROM twin)
{known};

-- :name remove_entry
-- Delete the one entry that matches, if any does; for one file alone, if another holds it.
WITH victim AS ({victim}),
stays AS (
    {left}
), noted AS (
    {history}
    SELECT %(theme)s, id, NULL, %(target)s, 'removed', content, %(subject)s, %(source)s,
           updated_at, %(at)s, %(metadata)s
      FROM victim
     WHERE NOT shared
)
DELETE FROM memory_entries
 USING victim
 WHERE agent_identity = %(theme)s
   AND memory_entries.id = victim.id
   AND NOT victim.shared;
