"""Markdown, and the refusal to leave something public without a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Undocumented(Exception):
    """Something public says nothing about itself; the message names it."""


def required(text: str | None, of: str) -> str:
    """Return *text* on one line.

    Raises:
        Undocumented: It is blank; *of* says whose it should be.
    """
    line = " ".join((text or "").split())
    if not line:
        raise Undocumented(f"{of} has no description")
    return line


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def code(text: str) -> str:
    """Return *text* as code, or "" for nothing."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
