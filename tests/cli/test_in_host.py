"""The real host's own commands, with our door in its home."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_kit import Run

from hermes_pgmemory import door
from hermes_pgmemory.settings_file import active_provider

DOWN = "host=127.0.0.1 port=1 user=u password=hunter2"


@pytest.fixture
def activate(home: Path) -> Callable[[str], None]:
    """Install the door and make ours the active provider, by hand."""

    def activate(dsn: str) -> None:
        door.install(home)
        (home / "config.yaml").write_text(
            f"memory: {{provider: pgvector}}\nplugins:\n  pgvector:\n    dsn: {dsn}\n"
        )

    return activate


class TestOurCommand:
    def test_it_says_the_same_in_the_host(
        self, child: Run, activate: Callable[[str], None], dsn: str
    ):
        activate(dsn)
        ours = child("hermes-pgvector", "status", "--json")
        hosts = child("hermes", "pgvector", "status", "--json")
        assert hosts.status == ours.status == 0
        assert hosts.data == ours.data
        assert hosts.data["parts"]["provider"]["state"] == "ok"

    @pytest.mark.parametrize(
        ("words", "status", "line"),
        [
            (["migrate", "--check"], 3, "127.0.0.1"),
            (["migrate", "--model", "x"], 2, "--dimensions"),
            (["nosuch"], 2, "nosuch"),
        ],
        ids=["unavailable", "bad arguments", "unknown command"],
    )
    def test_its_exit_status_and_its_words_reach_the_shell(
        self,
        child: Run,
        activate: Callable[[str], None],
        words: list[str],
        status: int,
        line: str,
    ):
        activate(DOWN)
        ran = child("hermes", "pgvector", *words)
        assert ran.status == status
        assert ran.out == ""
        assert line in ran.err.splitlines()[-1]
        assert "Traceback" not in ran.err
        assert "hunter2" not in ran.err


class TestTheHostsCommands:
    def test_memory_setup_does_everything_and_the_doctor_is_pleased(
        self, child: Run, home: Path, new_database: Callable[..., str]
    ):
        door.install(home)
        config = home / "config.yaml"
        config.write_text(f"# mine\nplugins:\n  pgvector:\n    dsn: {new_database()}\n")
        setup = child("hermes", "memory", "setup", "pgvector")
        assert setup.status == 0
        assert "✓ config: memory.provider is pgvector" in setup.out
        assert active_provider(config) == "pgvector"
        assert config.read_text().startswith("# mine\n")
        status = child("hermes", "memory", "status")
        assert "Provider:  pgvector" in status.out
        assert "Status:    available ✓" in status.out
        doctor = child("hermes", "doctor")
        assert "✓ pgvector provider active" in doctor.out


class TestWithoutThePackage:
    @pytest.fixture
    def shadow(self, tmp_path: Path, activate: Callable[[str], None]) -> dict[str, str]:
        """An environment in which hermes_pgmemory cannot be imported."""
        activate(DOWN)
        package = tmp_path / "shadow" / "hermes_pgmemory"
        package.mkdir(parents=True)
        error = "ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"
        (package / "__init__.py").write_text(f"raise {error}")
        # So that the host's own installer ends at once.
        return {"PYTHONPATH": str(package.parent), "PIP_NO_INDEX": "1"}

    def test_the_command_says_how_to_get_it(self, child: Run, shadow: dict[str, str]):
        ran = child("hermes", "pgvector", "status", "--json", **shadow)
        assert ran.status == 1
        assert ran.out == ""
        [line] = ran.err.splitlines()
        assert "-m pip install hermes-pgmemory" in line
        assert "/bin/python" in line
        assert "plugins/pgvector" in line

    def test_memory_status_says_so_too(self, child: Run, shadow: dict[str, str]):
        ran = child("hermes", "memory", "status", **shadow)
        assert ran.status == 0
        assert "not available" in ran.out
        assert "-m pip install hermes-pgmemory" in ran.out

    def test_memory_setup_ends_in_words(self, child: Run, shadow: dict[str, str]):
        ran = child("hermes", "memory", "setup", "pgvector", **shadow)
        assert "-m pip install hermes-pgmemory" in ran.out.splitlines()[-1]
        assert "Traceback" not in ran.out + ran.err
