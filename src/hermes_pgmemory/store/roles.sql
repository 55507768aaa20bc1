-- :fragment needs
-- What an agent, and every command but `migrate`, does with each of our objects. The
-- ids are identity columns: whoever may insert needs no right on their sequences.
(VALUES ('memory_migrations', 'SELECT'),
        ('memory_settings', 'SELECT'),
        ('memory_models', 'SELECT'),
        ('memory_journal_positions', 'SELECT, INSERT, UPDATE, DELETE'),
        ('memory_entries', 'SELECT, INSERT, UPDATE, DELETE'),
        ('conversations', 'SELECT, INSERT, UPDATE, DELETE'),
        ('memory_agents', 'SELECT, INSERT, UPDATE, DELETE'),
        ('memory_agent_edges', 'SELECT, INSERT, UPDATE, DELETE'),
        ('memory_entry_history', 'SELECT, INSERT, UPDATE, DELETE'),
        ('memory_forgotten', 'SELECT, INSERT, UPDATE, DELETE'),
        ('memory_maintenance_log', 'SELECT, INSERT, UPDATE'),
        ('v_agent_memory', 'SELECT')) AS needs (name, privileges)

-- :name role_exists
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %(role)s);

-- :name name_runtime_role
-- For `grant_to_runtime_role`, which cannot take a parameter.
SELECT set_config('hermes_pgmemory.runtime_role', %(role)s, true);

-- :name grant_to_runtime_role
-- Give the named role what it needs, on our own objects and their schema. Granting
-- what is granted already changes nothing.
DO $do$
DECLARE
    grantee text := current_setting('hermes_pgmemory.runtime_role');
    needed record;
BEGIN
    FOR needed IN SELECT name, privileges FROM {needs} LOOP
        EXECUTE format('GRANT %s ON %s TO %I',
                       needed.privileges, needed.name::regclass, grantee);
    END LOOP;
    FOR needed IN SELECT relnamespace::regnamespace AS name
                    FROM pg_class
                   WHERE oid = 'memory_entries'::regclass
                     AND NOT has_schema_privilege(grantee, relnamespace, 'USAGE') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', needed.name, grantee);
    END LOOP;
END
$do$;

-- :name lacking
-- What a role lacks: privilege and object, in the order of the list above. Looks past
-- the search path, which skips schemas that the role may not use.
SELECT privilege, what
  FROM (SELECT 'USAGE' AS privilege,
               'schema ' || nspname AS what,
               0 AS place
          FROM pg_namespace
         WHERE EXISTS (SELECT
                         FROM pg_class
                        WHERE relnamespace = pg_namespace.oid
                          AND relname = 'memory_migrations'
                          AND relkind = 'r')
           AND NOT has_schema_privilege(%(role)s, pg_namespace.oid, 'USAGE')
        UNION ALL
        SELECT privilege, name, place
          FROM {needs},
               regexp_split_to_table(privileges, ', ')
                   WITH ORDINALITY AS one (privilege, place)
         WHERE NOT has_table_privilege(%(role)s, to_regclass(name), privilege))
       AS lacking
 ORDER BY what NOT LIKE 'schema %%', what, place;

-- :name current_role
SELECT current_user::text;
