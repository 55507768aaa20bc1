-- :name look_at_server
-- What of a server matters to us, besides its schema: one row.
SELECT current_setting('server_encoding'),
       current_setting('fsync')::boolean,
       current_setting('full_page_writes')::boolean,
       current_setting('max_connections')::integer,
       pg_is_in_recovery(),
       current_setting('default_transaction_read_only')::boolean,
       extract(epoch FROM clock_timestamp())::float8,
       current_user::text,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
       current_setting('server_version_num')::integer;
