"""Take the plugin out of the host; all data stays where it is.

Removes the door, puts `memory.provider` back to what it was, and takes us off
`plugins.enabled`. A config.yaml that nobody changed since `setup` is put back byte for
byte. The database, the journal, MEMORY.md, USER.md and, in the state folder, the
settings are kept, so `setup` brings everything back. With --delete-data the state
folder goes too; a PostgreSQL that `dsn` names is never touched.

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
    if paths.door.exists():
        _print.say(f"{paths.door} stays: what is left in it is not ours")
    if args.delete_data and paths.state.exists():
        _delete(paths)
        removed.append(str(paths.state))
    elif paths.state.exists():
        _print.say(f"{paths.state} stays: it holds the journal and local data")
    lines = [f"removed {path}" for path in removed]
    if was_active:
        lines.append("the host no longer uses pgvector; start a new session")
    return Result(
        data={"removed": removed, "provider_reset": was_active},
        text="\n".join(lines) or "nothing to remove",
    )


def _delete(paths: HomePaths) -> None:
    """Delete the state folder, its server stopped first."""
    from hermes_pgmemory.embedded import EmbeddedServer  # noqa: PLC0415

    if paths.server.exists():
        EmbeddedServer(paths.server).stop()
    shutil.rmtree(paths.state)
