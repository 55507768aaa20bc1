-- :name mark
-- How far the primary's log has come, and which memory this is: one row.
SELECT pg_current_wal_insert_lsn()::text AS lsn,
       (SELECT encode(sha256(convert_to(value #>> '{}', 'UTF8')), 'hex')
          FROM memory_settings
         WHERE key = 'subject_key') AS memory;

-- :name standing
-- Whether this server holds what the primary's log held at `lsn` (NULL: not asked),
-- and which memory this is. After its promotion a standby is a primary.
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
            ELSE pg_current_wal_insert_lsn()
        END >= %(lsn)s::pg_lsn AS holds,
       (SELECT encode(sha256(convert_to(value #>> '{}', 'UTF8')), 'hex')
          FROM memory_settings
         WHERE key = 'subject_key') AS memory;

-- :name behind
-- Seconds since the primary committed what this standby replayed last; 0 where it
-- has replayed all that it received, NULL on a primary.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN NULL
            WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
            ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())
        END::float8;
