"""Shared, durable, searchable memory for hermes-agent, on PostgreSQL + pgvector.

This module only announces the provider, and `Memory` for programs that are not
hermes; everything else is imported when used, because the host loads it in many places
where no memory is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_pgmemory.memory import Found, Memory

__all__ = ["Found", "Memory", "register"]


def register(ctx: Any) -> None:
    """Give the host one new provider; hosts with entry points call this."""
    from hermes_pgmemory.provider import PgvectorProvider  # noqa: PLC0415

    ctx.register_memory_provider(PgvectorProvider())


def __getattr__(name: str) -> Any:
    """Import the library, or look `__version__` up, when asked: neither is free."""
    if name in ("Found", "Memory"):
        from hermes_pgmemory import memory  # noqa: PLC0415

        return getattr(memory, name)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("hermes-pgmemory")
    raise AttributeError(name)
