"""Write the plugin directory that the host looks at, the door.

The door is `$HERMES_HOME/plugins/pgvector/`, with a tab for the host's own dashboard in
`dashboard/`. It is written whole, again only where something differs. `setup` does this
too.

Example:
  hermes-pgvector install --home ~/.hermes/profiles/sales
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli._result import Result


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `install`."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="move another plugin's directory of the same name aside",
    )


def run(args: Namespace) -> Result:
    """Write the door and name the files written."""
    from hermes_pgmemory import door  # noqa: PLC0415

    written = [str(path) for path in door.install(args.home, force=args.force)]
    folder = str(door.inspect(args.home).path)
    text = "\n".join(written) or f"{folder} is up to date"
    return Result(data={"door": folder, "written": written}, text=text)
