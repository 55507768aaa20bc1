"""The page on backups, its commands run word for word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from fences import blocks

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backup.md"
HELD = """
SELECT (SELECT json_agg(t ORDER BY id) FROM memory_entries AS t)::text,
       (SELECT json_agg(t ORDER BY id) FROM conversations AS t)::text,
       (SELECT json_agg(t ORDER BY key) FROM memory_settings AS t)::text,
       (SELECT json_agg(t ORDER BY epoch) FROM memory_journal_positions AS t)::text
"""
WRITTEN = """
INSERT INTO memory_entries
       (agent_identity, target, content, content_hash, embedding, model_id, tsv)
SELECT 'sales', 'memory', 'Halden pays late.', '\\x01', '[1,2,3]', id, 'halden:1'
  FROM memory_models;
INSERT INTO conversations (agent_identity, session_id, role, content, turn_key, tsv)
VALUES ('sales', 's1', 'user', 'Does Halden pay?', '\\x02', 'halden:1');
INSERT INTO memory_journal_positions (agent_identity, epoch, position)
VALUES ('sales', gen_random_uuid(), 7)
"""


def test_what_was_dumped_is_restored_and_found_in_order(
    dsn: str, new_database: Callable[..., str], servers: Any, tmp_path: Path
):
    with psycopg.connect(dsn) as conn:
        conn.execute(WRITTEN)
    restored = new_database()
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{restored}'}}}}\n")
    path = [str(servers.bin), str(Path(sys.executable).parent), os.defpath]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "".join(b.commands for b in blocks(PAGE))],
        cwd=tmp_path,
        env={
            "PATH": os.pathsep.join(path),
            "HOME": str(tmp_path),
            "HERMES_HOME": str(home),
            "DSN": dsn,
            "NEW_DSN": restored,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "up to date" in done.stdout
    with psycopg.connect(dsn) as old, psycopg.connect(restored) as new:
        held = old.execute(HELD).fetchall()
        assert new.execute(HELD).fetchall() == held
        assert all(held[0])
