-- :name see_agent
-- Note that a theme was seen. A later sighting knows its kind better; an earlier one
-- only moves first_seen.
INSERT INTO memory_agents AS known (agent_identity, kind, first_seen, last_seen)
VALUES (%(theme)s, %(kind)s, %(at)s, %(at)s)
    ON CONFLICT (agent_identity) DO UPDATE
   SET kind = CASE WHEN EXCLUDED.last_seen >= known.last_seen THEN EXCLUDED.kind
                   ELSE known.kind END,
       first_seen = least(known.first_seen, EXCLUDED.first_seen),
       last_seen = greatest(known.last_seen, EXCLUDED.last_seen)
 WHERE EXCLUDED.last_seen > known.last_seen
    OR EXCLUDED.first_seen < known.first_seen
    OR (EXCLUDED.last_seen = known.last_seen AND EXCLUDED.kind <> known.kind);

-- :name record_delegation
-- Note who delegated what to which session; once.
INSERT INTO memory_agent_edges
       (parent_identity, parent_session_id, child_session_id, task, task_hash, subject,
        ts, attrs)
VALUES (%(theme)s, %(parent_session_id)s, %(child_session_id)s, %(task)s,
        sha256(convert_to(%(task)s, 'UTF8')), %(subject)s, %(at)s, %(metadata)s)
    ON CONFLICT ON CONSTRAINT memory_agent_edges_unique DO NOTHING;
