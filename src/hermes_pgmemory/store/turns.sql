-- :name add_turns
-- Keep turns, all in one statement: half the work per row of one statement each. A
-- turn that is already there is left alone, and so is one that the session was brought
-- along from another, which holds it.
INSERT INTO conversations
       (agent_identity, session_id, parent_session_id, role, content, ts, turn_key,
        embed, embedding, model_id, subject, metadata, tsv, text_hash)
SELECT theme, session_id, parent_session_id, role, content, at, turn_key,
       embed, embedding, CASE WHEN embedding IS NOT NULL THEN %(model_id)s::smallint END,
       subject, metadata, {lexemes}, text_hash
  FROM unnest(
           %(themes)s::text[], %(session_ids)s::text[], %(parent_session_ids)s::text[],
           %(roles)s::text[], %(contents)s::text[], %(ats)s::timestamptz[],
           %(turn_keys)s::bytea[], %(embeds)s::boolean[], %(embeddings)b::halfvec[],
           %(subjects)s::text[], %(metadatas)s::jsonb[], %(text_hashes)s::bytea[],
           %(broughts)s::jsonb[])
       WITH ORDINALITY AS said
           (theme, session_id, parent_session_id, role, content, at,
            turn_key, embed, embedding, subject, metadata, text_hash, brought, place)
 WHERE NOT EXISTS (SELECT
                     FROM jsonb_each_text(said.brought) AS other (session_id, until)
                     JOIN conversations AS known
                       ON known.agent_identity = said.theme
                      AND known.session_id = other.session_id
                      AND known.turn_key = said.turn_key
                    WHERE known.ts <= to_timestamp(other.until::float8))
 ORDER BY place
    ON CONFLICT (agent_identity, session_id, turn_key) DO NOTHING;
