"""Show the settings in effect, secrets hidden, and what is wrong with them.

Settings live under `plugins.pgvector` in config.yaml. A wrong one is named, its default
is shown, and the exit status is 1.

Example:
  hermes-pgvector config --json
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result, Status, Table

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings

_CREDENTIALS: Final = re.compile(r"(?<=//).*(?=@)|(?<=[?&])([^=&]+)=[^&#]*")
"""User and password, and every query parameter's value, of a URL. A password may hold
@ or / though it must not: up to the last @ nothing is shown."""


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `config`."""
    parser.add_argument(
        "--reference",
        action="store_true",
        help="print every setting with its default as a Markdown table",
    )


def run(args: Namespace) -> Result:
    """Show the effective settings, or the reference of all."""
    if args.reference:
        return _reference()
    return _effective(args)


def _effective(args: Namespace) -> Result:
    from hermes_pgmemory.config import parse  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415
    from hermes_pgmemory.settings_file import load_section  # noqa: PLC0415

    path = HomePaths(args.home).config
    section = load_section(path)
    parsed = parse(section)
    shown = visible(parsed.settings)
    for key, problem in parsed.problems.items():
        _print.say(f"{key}: {problem}")
    rows = [
        (key, _spell(value), "set" if section.get(key) is not None else "default")
        for key, value in shown.items()
    ]
    return Result(
        data={
            "file": str(path),
            "settings": shown,
            "set": sorted(key for key in section if key in shown),
            "problems": dict(parsed.problems),
        },
        tables=[Table(title=f"plugins.pgvector in {path}", rows=rows)],
        status=Status.FAILED if parsed.problems else Status.DONE,
    )


def visible(settings: Settings) -> dict[str, Any]:
    """Return the settings with everything secret hidden."""
    from pydantic import SecretStr  # noqa: PLC0415

    shown: dict[str, Any] = {}
    for key, value in settings:
        if isinstance(value, SecretStr):
            shown[key] = "(hidden)" if value.get_secret_value() else ""
        elif isinstance(value, str):
            shown[key] = _CREDENTIALS.sub(
                lambda m: f"{m[1]}=***" if m[1] else "***", value
            )
        else:
            shown[key] = value
    return shown


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(cast("tuple[str, ...]", value))
    return "" if value is None else str(value)


def _reference() -> Result:
    from hermes_pgmemory.settings_docs import field_docs  # noqa: PLC0415

    docs = field_docs()
    lines = ["| Setting | Default | What it does |", "|---|---|---|"]
    for doc in docs:
        default = f"`{doc.default}`" if doc.default else ""
        choices = f" One of {', '.join(doc.choices)}." if doc.choices else ""
        lines.append(f"| `{doc.key}` | {default} | {doc.help}{choices} |")
    data = {
        doc.key: {"default": doc.default, "help": doc.help, "choices": doc.choices}
        for doc in docs
    }
    return Result(data=data, text="\n".join(lines))
