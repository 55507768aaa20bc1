"""Take the plugin out of the host; all data stays where it is.

Removes the door, puts `memory.provider` back to what it was, and takes us off
`plugins.enabled`. A config.yaml that nobody changed since `setup` is put back byte for
byte, and so is the directory of another plugin that was moved aside. The database, the
journal, MEMORY.md, USER.md and, in the state folder, the settings are kept, so `setup`
brings everything back. With --delete-data the state folder goes too; a PostgreSQL that
`dsn` names is never touched.

Example:
  hermes-pgvector uninstall
"""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.paths import HomePaths


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `uninstall`."""
    parser.add_argument(
        "--delete-data",
        action="store_true",
        help="also delete this home's journal and embedded database, for good",
    )


def run(args: Namespace) -> Result:
    """Switch the provider off, remove the door, and say what stays."""
    from hermes_pgmemory import activation, door  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    paths = HomePaths(args.home)
    # The provider first: a host that starts in between must not miss its plugin.
    was_active = activation.switch_off(paths)
    removed = [str(path) for path in door.uninstall(args.home)]
    restored = door.put_back(args.home)
    if restored is None and paths.door.exists():
        _print.say(f"{paths.door} stays: what is left in it is not ours")
    if args.delete_data and paths.state.exists():
        removed += _delete(paths)
    elif paths.state.exists():
        _print.say(f"{paths.state} stays: it holds the journal and local data")
    lines = [f"removed {path}" for path in removed]
    if restored is not None:
        lines.append(f"{restored} is again the plugin that was there before")
    elif was_active:
        lines.append("the host no longer uses pgvector; start a new session")
    return Result(
        data={
            "removed": removed,
            "restored": None if restored is None else str(restored),
            "provider_reset": was_active,
        },
        text="\n".join(lines) or "nothing to remove",
    )


def _delete(paths: HomePaths) -> list[str]:
    """Delete what is ours of the state folder, its server stopped first.

    Returns:
        What was deleted: the folder itself, unless it keeps somebody else's plugin.
    """
    from hermes_pgmemory import door  # noqa: PLC0415
    from hermes_pgmemory.embedded import EmbeddedServer  # noqa: PLC0415

    if paths.server.exists():
        EmbeddedServer(paths.server).stop()
    if door.displaced(paths.home) is None:
        shutil.rmtree(paths.state)
        return [str(paths.state)]
    _print.say(f"{paths.state} stays: it keeps another plugin that was moved aside")
    ours = [p for p in paths.state.iterdir() if not p.name.startswith(door.DISPLACED)]
    for path in ours:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return [str(path) for path in ours]
