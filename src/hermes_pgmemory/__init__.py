"""Shared, durable, searchable memory for hermes-agent, on PostgreSQL + pgvector.

This module only announces the provider; everything else is imported when used,
because the host loads it in many places where no memory is wanted.
"""

from __future__ import annotations

from typing import Any

__all__ = ["register"]


def register(ctx: Any) -> None:
    """Give the host one new provider; hosts with entry points call this."""
    from hermes_pgmemory.provider import PgvectorProvider  # noqa: PLC0415

    ctx.register_memory_provider(PgvectorProvider())


def __getattr__(name: str) -> str:
    """Look `__version__` up when asked for: the metadata read is not free."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("hermes-pgmemory")
    raise AttributeError(name)
