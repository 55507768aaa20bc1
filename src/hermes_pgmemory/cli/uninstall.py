"""Take the plugin out of the host; all data stays where it is.

Removes the door and, where it is ours, resets `memory.provider`. The database, the
journal and the settings under `plugins.pgvector` are kept, so `setup` brings
everything back.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result


def configure(parser: ArgumentParser) -> None:
    """Declare no arguments."""
    del parser


def run(args: Namespace) -> Result:
    """Switch the provider off, remove the door, and say what stays."""
    from hermes_pgmemory import door, settings_file  # noqa: PLC0415
    from hermes_pgmemory.paths import PROVIDER, HomePaths  # noqa: PLC0415

    paths = HomePaths(args.home)
    # The provider first: a host that starts in between must not miss its plugin.
    was_active = settings_file.active_provider(paths.config) == PROVIDER
    if was_active:
        enabled = settings_file.enabled_plugins(paths.config) or []
        others = tuple(name for name in enabled if name != PROVIDER)
        changes: dict[str, object] = {"memory.provider": ""}
        if len(others) < len(enabled):
            changes["plugins.enabled"] = others
        settings_file.update(paths.config, changes)
    removed = [str(path) for path in door.uninstall(args.home)]
    if paths.door.exists():
        _print.say(f"{paths.door} stays: what is left in it is not ours")
    if paths.state.exists():
        _print.say(f"{paths.state} stays: it holds the journal and local data")
    lines = [f"removed {path}" for path in removed]
    if was_active:
        lines.append("memory.provider is reset; the host uses its built-in memory")
    return Result(
        data={"removed": removed, "provider_reset": was_active},
        text="\n".join(lines) or "nothing to remove",
    )
