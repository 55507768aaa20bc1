-- :name begin
BEGIN;

-- :name begin_reading
BEGIN READ ONLY;

-- :name commit
COMMIT;

-- :name limit_transaction
-- Bound this transaction alone: a pooler may give the connection to anybody next.
-- A client frozen in mid-transaction loses its locks after `most` milliseconds.
-- PostgreSQL 16 notices one only between statements that wait for each other.
SELECT set_config('statement_timeout', %(limit)s, true),
       set_config('lock_timeout', %(limit)s, true),
       set_config('client_min_messages', 'warning', true),
       set_config(CASE WHEN current_setting('server_version_num')::int >= 170000
                       THEN 'transaction_timeout'
                       ELSE 'idle_in_transaction_session_timeout' END,
                  %(most)s, true);

-- :name lift_limits
-- Let this transaction last, and rest, for as long as the work beside it takes, whatever
-- the role's or the database's transactions usually may.
SELECT set_config('idle_in_transaction_session_timeout', '0', true),
       set_config(CASE WHEN current_setting('server_version_num')::int >= 170000
                       THEN 'transaction_timeout'
                       ELSE 'idle_in_transaction_session_timeout' END,
                  '0', true);

-- :name become_reader
-- Give up every right but the reader's, for this transaction, if there is such a role
-- and this user may become it.
SELECT set_config('role', rolname, true)
  FROM pg_roles
 WHERE rolname = %(role)s
   AND pg_has_role(oid, 'MEMBER');

-- :name hold_vectors
-- Keep the columns of vectors in their place until this transaction ends: what is read
-- next, which model is active, stays true while we write. The lock is the one that
-- writing takes anyway.
LOCK TABLE memory_entries, conversations IN ROW EXCLUSIVE MODE;

-- :name settings
-- What a writer must know: one row.
SELECT (SELECT value #>> '{}' FROM memory_settings WHERE key = 'text_search_config')
           AS config,
       (SELECT value::smallint FROM memory_settings WHERE key = 'active_model_id')
           AS model_id,
       (SELECT name
          FROM memory_models
         WHERE id = (SELECT value::smallint
                       FROM memory_settings
                      WHERE key = 'active_model_id')) AS model,
       to_regtype('halfvec')::oid::bigint AS halfvec_oid,
       to_regclass('memory_agents') IS NOT NULL AS has_agents;

-- :name lock_positions
-- Lock each theme's place in each journal, in an order that all agents share, and
-- return it; 0 for a journal never seen before.
INSERT INTO memory_journal_positions AS known
       (agent_identity, epoch, position, updated_at)
SELECT theme, epoch, 0, now()
  FROM unnest(%(themes)s::text[], %(epochs)s::uuid[]) AS wanted (theme, epoch)
 ORDER BY theme, epoch
    ON CONFLICT (agent_identity, epoch) DO UPDATE SET updated_at = EXCLUDED.updated_at
RETURNING agent_identity, epoch::text, position;

-- :name advance_position
-- Remember the last write applied; affects one row.
UPDATE memory_journal_positions
   SET position = %(position)s
 WHERE agent_identity = %(theme)s
   AND epoch = %(epoch)s::uuid;

-- :name lock_theme
-- Queue the writers of one theme's entries: a replacement reads before it writes.
SELECT pg_advisory_xact_lock(hashtextextended('hermes-pgmemory ' || %(theme)s, 0));
