-- 0003 agents
--
-- Adds:    memory_agents, memory_agent_edges, memory_maintenance_log,
--          view v_agent_memory
-- Why:     who remembered what, who delegated to whom, and what an operator did
-- Needs:   0002 memories
-- Locks:   none; creates new objects only
-- Runtime: instant
-- Undo:    DROP VIEW v_agent_memory;
--          DROP TABLE memory_agents, memory_agent_edges, memory_maintenance_log;

CREATE TABLE memory_agents (
    agent_identity text PRIMARY KEY CHECK (agent_identity <> ''),
    kind           text NOT NULL DEFAULT 'theme',
    first_seen     timestamptz NOT NULL DEFAULT now(),
    last_seen      timestamptz NOT NULL DEFAULT now(),
    attrs          jsonb NOT NULL DEFAULT '{}'
);

COMMENT ON COLUMN memory_agents.kind IS
    'theme, worker, dm, group, bench or default';

CREATE TABLE memory_agent_edges (
    id                bigint GENERATED ALWAYS AS IDENTITY,
    parent_identity   text NOT NULL CHECK (parent_identity <> ''),
    child_identity    text,
    parent_session_id text NOT NULL,
    child_session_id  text NOT NULL,
    kind              text NOT NULL DEFAULT 'delegated',
    task              text NOT NULL DEFAULT '',
    task_hash         bytea NOT NULL,
    subject           text,
    ts                timestamptz NOT NULL DEFAULT now(),
    attrs             jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (parent_identity, id),
    CONSTRAINT memory_agent_edges_unique UNIQUE
        (parent_identity, parent_session_id, child_session_id, kind, ts, task_hash)
);

COMMENT ON TABLE memory_agent_edges IS
    'Provenance only: who delegated what to whom, and when';
COMMENT ON COLUMN memory_agent_edges.child_identity IS
    'NULL where the host does not tell whom the child session belongs to';
COMMENT ON COLUMN memory_agent_edges.task_hash IS
    'sha256 of task in UTF-8, for the unique key';
COMMENT ON COLUMN memory_agent_edges.subject IS
    'Keyed hash of the contact on whose behalf it was delegated';

CREATE INDEX ix_memory_agent_edges_parent
    ON memory_agent_edges (parent_identity, ts);
CREATE INDEX ix_memory_agent_edges_child
    ON memory_agent_edges (child_session_id);

CREATE TABLE memory_maintenance_log (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ts               timestamptz NOT NULL DEFAULT now(),
    operation        text NOT NULL,
    target_table     text,
    identity_pattern text,
    affected_count   bigint,
    dropped_dupes    bigint,
    dry_run          boolean NOT NULL DEFAULT true,
    details          jsonb NOT NULL DEFAULT '{}'
);

COMMENT ON COLUMN memory_maintenance_log.dropped_dupes IS
    'Rows of affected_count that were deleted as duplicates of another';

CREATE VIEW v_agent_memory AS
WITH remembered AS (
    SELECT agent_identity, count(*) AS rows
      FROM memory_entries
     WHERE retired_at IS NULL
     GROUP BY agent_identity
), said AS (
    SELECT agent_identity, count(*) AS rows
      FROM conversations
     GROUP BY agent_identity
)
SELECT agent_identity,
       memory_agents.kind,
       coalesce(remembered.rows, 0) AS memory_rows,
       coalesce(said.rows, 0) AS conversation_rows,
       memory_agents.first_seen,
       memory_agents.last_seen
  FROM memory_agents
  FULL JOIN remembered USING (agent_identity)
  FULL JOIN said USING (agent_identity)
 ORDER BY agent_identity;
