"""Checks of the database and its server."""

from __future__ import annotations

from typing import Final

from hermes_pgmemory.cli._doctor._here import of_part
from hermes_pgmemory.cli._doctor._world import Finding, Level, World
from hermes_pgmemory.survey import State

OLDEST_GOOD: Final = (0, 8, 4)
"""pgvector before it has faults that matter to us."""
FEW_CONNECTIONS: Final = 20
SKEW_S: Final = 2.0
"""Turns are ordered by the clocks of the hosts that heard them."""
SLOW_CONNECT_S: Final = 0.5


def database(world: World) -> Finding:
    """Does it answer, and how fast?"""
    server = world.server
    facts = {
        "connect_s": round(server.connect_s, 4),
        "round_trip_s": round(server.round_trip_s, 5),
        "version": server.version,
    }
    version = f"{server.version // 10_000}.{server.version % 10_000}"
    detail = (
        f"PostgreSQL {version}, connected in {server.connect_s * 1000:.0f} ms, "
        f"round trip {server.round_trip_s * 1000:.1f} ms"
    )
    if server.connect_s > SLOW_CONNECT_S:
        fix = "look at the network and its name service, or put a pooler before it"
        return Finding(Level.NOTE, detail, fix, facts)
    return Finding(Level.OK, detail, facts=facts)


def schema(world: World) -> Finding:
    """Is it this package's?"""
    world.need("database")
    part = world.survey.parts["schema"]
    finding = of_part(part, "run `hermes-pgvector migrate`")
    if part.state is not State.OK:
        world.failed("schema")
    return finding


def role(world: World) -> Finding:
    """May the role do what agents do?"""
    server = world.server
    if not server.lacks:
        return Finding(Level.OK, f"{server.role} may do all that agents do")
    return Finding(
        Level.WRONG,
        f"role {server.role} lacks {server.lacks}",
        f"run `hermes-pgvector migrate --admin-dsn - --runtime-role {server.role}` "
        "with the DSN of the tables' owner on standard input",
    )


def extension(world: World) -> Finding:
    """Is pgvector recent enough?"""
    version = world.server.extension
    told = ".".join(map(str, version)) or "none"
    fix = "install the current pgvector, then run ALTER EXTENSION vector UPDATE"
    if not version:
        return Finding(Level.WRONG, "pgvector is not installed in this database", fix)
    if version < OLDEST_GOOD:
        wanted = ".".join(map(str, OLDEST_GOOD))
        return Finding(Level.NOTE, f"{told}, {wanted} or newer is better", fix)
    return Finding(Level.OK, told)


def server_settings(world: World) -> Finding:
    """Is the server set up to keep what it is given, and to take it?"""
    server = world.server
    if server.encoding != "UTF8":
        fix = "make a database with ENCODING 'UTF8', and restore into it"
        return Finding(Level.WRONG, f"the encoding is {server.encoding}", fix)
    if server.is_standby or server.is_read_only:
        why = "a standby" if server.is_standby else "read-only"
        fix = "name the primary in plugins.pgvector.dsn; agents journal meanwhile"
        return Finding(Level.WRONG, f"the server is {why}: nothing can be stored", fix)
    if not (server.fsync and server.full_page_writes):
        fix = "set fsync and full_page_writes to on"
        return Finding(Level.WRONG, "a power failure can destroy the database", fix)
    if server.max_connections < FEW_CONNECTIONS:
        detail = f"max_connections is {server.max_connections}; an agent takes up to 4"
        return Finding(Level.NOTE, detail, "raise max_connections, or use a pooler")
    return Finding(Level.OK, f"UTF8, durable, {server.max_connections} connections")


def clock(world: World) -> Finding:
    """Do its clock and ours agree?"""
    skew_s = world.server.skew_s
    facts = {"skew_s": round(skew_s, 3)}
    detail = f"the server's clock is {abs(skew_s):.2f} s "
    detail += "ahead" if skew_s > 0 else "behind"
    if abs(skew_s) <= SKEW_S:
        return Finding(Level.OK, detail, facts=facts)
    return Finding(Level.WRONG, detail, "let NTP set both clocks", facts)
