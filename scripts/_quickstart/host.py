"""The real hermes-agent, alone in a folder: its home, and commands run there.

Nothing here leaves the machine: the host is given a home of its own, its model on
loopback, and a proxy that refuses everything else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

BIN: Final = Path(sys.executable).parent
"""Where this environment's commands lie."""

NOBODY: Final = Path(__file__).with_name("nobody.pem")
"""Whom the host trusts on the network: nobody, whose key was thrown away.

It reads its list of authorities anew for each of dozens of clients; this one is short.
"""

TURN_S: Final = 120.0
"""Seconds one turn may take, tool calls included."""

_INHERITED: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME")


class HostError(RuntimeError):
    """The host did not do what it was asked; the message is for people."""


def end(process: subprocess.Popen[Any], *, patience_s: float) -> None:
    """Ask a child to end (SIGTERM) and wait; kill it only if it will not."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True, kw_only=True)
class Home:
    """One HERMES_HOME and the environment in which the host runs there."""

    path: Path
    user_home: Path
    """What HOME is for every process; never the caller's own."""
    extra_env: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of a child: nothing of the caller's leaks in."""
        inherited = {k: os.environ[k] for k in _INHERITED if k in os.environ}
        path = f"{BIN}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        nowhere = "http://127.0.0.1:9"
        return {
            **inherited,
            "PATH": path,
            "HOME": str(self.user_home),
            "HERMES_HOME": str(self.path),
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "SSL_CERT_FILE": str(NOBODY),
            "NO_COLOR": "1",
            "TERM": "dumb",
            "HERMES_ACCEPT_HOOKS": "1",
            # The host would install optional packages into this environment.
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            "PYTHONUNBUFFERED": "1",
            **self.extra_env,
        }

    def write_config(
        self,
        model_url: str,
        settings: Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        """Write config.yaml: the model at *model_url*, built-in memory on.

        *settings*, if given, are `plugins.pgvector`, with our provider made the
        active one; otherwise `hermes-pgvector setup` has that to do. *memory* adds to
        the host's own memory settings.
        """
        config: dict[str, Any] = {
            "model": {
                "default": "scripted",
                "provider": "custom",
                "base_url": model_url,
                "api_key": "not-needed",
                "context_length": 200_000,
            },
            "memory": {
                "memory_enabled": True,
                "user_profile_enabled": True,
                **(memory or {}),
            },
            # Each process would run pip twice to tell the model about Python.
            "agent": {"environment_probe": False},
        }
        if settings is not None:
            config["memory"]["provider"] = "pgvector"
            config["plugins"] = {"pgvector": dict(settings)}
        self.path.mkdir(parents=True, exist_ok=True)
        self.user_home.mkdir(parents=True, exist_ok=True)
        with (self.path / "config.yaml").open("w", encoding="utf-8") as out:
            YAML().dump(config, out)

    def run(
        self,
        *command: str,
        timeout_s: float = TURN_S,
        tell: Callable[[str], None] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the environment's commands to its end, output captured.

        *tell*, if given, hears each line of standard error when it comes.

        Raises:
            HostError: It did not end in *timeout_s*.
        """
        with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
            process = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                env=self.env,
                cwd=self.user_home,
                # Without the caller's terminal: that is what marks a person's own.
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
            )
            clock = threading.Timer(timeout_s, process.kill)
            clock.start()
            try:
                with ExitStack() as failed:
                    failed.callback(end, process, patience_s=10)
                    stderr = _heard(process, tell)
                    process.wait()
                    failed.pop_all()
            finally:
                late = not clock.is_alive()
                clock.cancel()
                clock.join()
            if late:
                spelled = " ".join(command[:3])
                raise HostError(f"{spelled} ... did not end in {timeout_s:.0f} s")
            out.seek(0)
            return subprocess.CompletedProcess(
                command, process.returncode, out.read(), stderr
            )

    def file_entries(self, name: str) -> list[str]:
        """Return the entries of the host's own MEMORY.md or USER.md, in order."""
        path = self.path / "memories" / name
        if not path.exists():
            return []
        return path.read_text(encoding="utf-8").split("\n\u00a7\n")

    def log_lines(self) -> list[str]:
        """Return every line the host has logged in this home."""
        path = self.path / "logs" / "agent.log"
        if not path.exists():
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _heard(process: subprocess.Popen[str], tell: Callable[[str], None] | None) -> str:
    """Return all of a process's standard error, told line by line as it comes."""
    lines: list[str] = []
    with process.stderr or nullcontext(()) as stderr:
        for line in stderr:
            lines.append(line)
            if tell is not None:
                tell(line.rstrip())
    return "".join(lines)
