"""What a schema is, so that two can be compared."""

from __future__ import annotations

from importlib.resources import files

import psycopg

OURS = "relnamespace = 'public'::regnamespace"
CATALOGS = {
    "relations": f"""
        SELECT relname, relkind, reloptions, relpersistence,
               obj_description(oid, 'pg_class')
          FROM pg_class WHERE {OURS}""",
    "columns": f"""
        SELECT relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull,
               attstorage, attcompression, attidentity, attgenerated, attoptions,
               pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)
          FROM pg_attribute
          JOIN pg_class ON pg_class.oid = attrelid
          LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE {OURS} AND attnum > 0""",
    "constraints": f"""
        SELECT relname, conname, contype, pg_get_constraintdef(pg_constraint.oid)
          FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE {OURS}""",
    "indexes": f"""
        SELECT relname, pg_get_indexdef(indexrelid), indisvalid
          FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE {OURS}""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "triggers": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    "functions": """
        SELECT proname FROM pg_proc
          LEFT JOIN pg_depend ON objid = pg_proc.oid AND deptype = 'e'
         WHERE pronamespace = 'public'::regnamespace AND objid IS NULL""",
    "privileges": f"SELECT relname, relacl::text FROM pg_class WHERE {OURS}",
}


def written(dsn: str, *, dimension: int) -> None:
    """Give an empty database what `schema.sql` says."""
    text = files("hermes_pgmemory.store").joinpath("schema.sql").read_text()
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS vector")
        conn.execute(text.replace(":dimensions", str(dimension)))


def catalog(dsn: str, name: str) -> list[str]:
    """Return one of `CATALOGS`, in an order that is always the same."""
    with psycopg.connect(dsn) as conn:
        rows = conn.execute(CATALOGS[name]).fetchall()
    return sorted(map(str, rows))
