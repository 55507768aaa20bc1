-- What a search must know of both tables to be quick; its answer is right without.

-- :name shape
-- For each table: the type of its vectors, how many rows the planner thinks there are,
-- its valid sealed indexes, and which share of its rows holds a word that many hold.
SELECT relname::text AS table,
       (SELECT format_type(atttypid, NULL)
          FROM pg_attribute
         WHERE attrelid = pg_class.oid AND attname = 'embedding') AS kind,
       greatest(reltuples, 0)::bigint AS rows,
       ARRAY(SELECT sealed.relname::text
               FROM pg_index
               JOIN pg_class AS sealed ON sealed.oid = indexrelid
               JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
              WHERE indrelid = pg_class.oid
                AND indisvalid
                AND attname = 'embedding'
                AND starts_with(sealed.relname, 'pgmemory_sealed_')) AS sealed,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS extension,
       frequent.lexemes,
       frequent.shares
  FROM pg_class
 CROSS JOIN LATERAL (
    SELECT array_agg(lexeme) AS lexemes, array_agg(share) AS shares
      FROM pg_stats,
           unnest(most_common_elems::text::text[], most_common_elem_freqs)
               AS word (lexeme, share)
     WHERE schemaname = relnamespace::regnamespace::text
       AND tablename = relname
       AND attname = 'tsv'
       AND lexeme IS NOT NULL
       AND share >= %(common)s) AS frequent
 WHERE pg_class.oid IN ('memory_entries'::regclass, 'conversations'::regclass);

-- :name count_entries
-- Rows of a theme, or of all, up to a number; an index alone can tell.
SELECT count(*) AS rows
  FROM (SELECT
          FROM memory_entries
         WHERE %(theme)s::text IS NULL OR agent_identity = %(theme)s
         LIMIT %(most)s) AS counted;

-- :name count_turns
SELECT count(*) AS rows
  FROM (SELECT
          FROM conversations
         WHERE %(theme)s::text IS NULL OR agent_identity = %(theme)s
         LIMIT %(most)s) AS counted;

-- :name tune_search
-- For a search of many rows, in this transaction. Look at more of a sealed index than is
-- asked for, and go on where filters leave too little; an older pgvector cannot go on.
-- The planner thinks that reading a large theme's part of an index costs next to nothing,
-- and does it for each rare word anew; at this cost it does so where that helps.
SELECT set_config('cpu_index_tuple_cost',
                  (0.025 * current_setting('random_page_cost')::float8)::text, true),
       set_config('hnsw.ef_search', %(breadth)s, true),
       CASE WHEN %(iterative)s
            THEN set_config('hnsw.iterative_scan', 'relaxed_order', true) END;
