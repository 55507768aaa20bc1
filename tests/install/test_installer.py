"""scripts/install.sh: which environment it finds, and what it says when it cannot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("install")

NOT_THERE = "hermes-pgmemory is not installed for "
"""What --uninstall says, with the Python it found, where there is nothing to do."""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def last_line(done) -> str:
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder for PATH that is in no environment."""
    folder = tmp_path / "local" / "bin"
    folder.mkdir(parents=True)
    return folder


class TestFinding:
    @pytest.fixture
    def found(self, environment: Callable) -> Callable[..., str]:
        """Return the Python that the installer finds with *outside* on PATH."""
        host = environment()

        def found(*path: Path, **env: str) -> str:
            folders = [*map(str, path), "/usr/bin", "/bin"]
            done = host.install("--uninstall", **{"PATH": ":".join(folders), **env})
            return done.stderr.strip()

        self.host = host
        return found

    def test_the_command_of_an_environment(self, found):
        assert found(self.host.path / "bin") == f"{NOT_THERE}{self.host.python}"

    def test_a_link_to_it(self, found, outside: Path):
        (outside / "hermes").symlink_to(self.host.path / "bin" / "hermes")
        assert found(outside) == f"{NOT_THERE}{self.host.python}"

    @pytest.mark.parametrize(
        "text",
        [
            "#!{python}\nimport hermes_cli\n",
            "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nimport x\n",
            '#!/bin/bash\nunset PYTHONPATH\nexec "{hermes}" "$@"\n',
        ],
        ids=["a shebang", "pip's long shebang", "a shell script"],
    )
    def test_a_command_elsewhere_that_names_it(self, found, outside: Path, text: str):
        hermes = self.host.path / "bin" / "hermes"
        text = text.format(python=self.host.python, hermes=hermes)
        script(outside / "hermes", text)
        assert found(outside) == f"{NOT_THERE}{self.host.python}"

    def test_where_the_hosts_own_installer_puts_it(self, found, tmp_path: Path):
        home = tmp_path / "home"
        (home / "hermes-agent").mkdir(parents=True)
        (home / "hermes-agent" / "venv").symlink_to(self.host.path)
        python = home / "hermes-agent" / "venv" / "bin" / "python"
        assert found(HERMES_HOME=str(home)) == f"{NOT_THERE}{python}"

    def test_nowhere(self, found):
        assert "no hermes command on PATH" in found()
        assert "--python" in found()


class TestRefusing:
    """One line that says what to change; nothing is installed."""

    @pytest.mark.parametrize(
        "words", [["--nosuch"], ["--python"], ["--home", ""], ["extra"]]
    )
    def test_wrong_usage_is_2(self, environment: Callable, words: list[str]):
        done = environment().install(*words)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert "--help" in line

    def test_a_python_that_is_not_there(self, environment: Callable):
        line = last_line(environment().install("--python", "/nonexistent/python"))
        assert "/nonexistent/python" in line

    def test_an_environment_without_the_host(self, environment: Callable):
        bare = environment("bare", site=None)
        line = last_line(bare.install("--python", bare.python))
        assert f"hermes-agent is not installed for {bare.python}" in line

    @pytest.fixture
    def posing(self, environment: Callable, tmp_path: Path) -> Callable[[str], str]:
        """Refuse a Python that, by a start-up module, looks like another one."""
        host = environment()

        def posing(code: str) -> str:
            folder = tmp_path / "posing"
            script(folder / "sitecustomize.py", code)
            return last_line(host.install(PYTHONPATH=str(folder)))

        return posing

    def test_a_python_too_old(self, posing):
        line = posing("import sys\nsys.version_info = (3, 9, 1, 'final', 0)\n")
        assert "is Python 3.9; hermes-pgmemory needs 3.11, 3.12 or 3.13" in line

    def test_a_python_of_the_operating_system(self, posing, tmp_path: Path):
        (tmp_path / "EXTERNALLY-MANAGED").touch()
        line = posing(
            "import sys, sysconfig\n"
            "sys.base_prefix = sys.prefix\n"
            f"sysconfig.get_path = lambda *_, **__: {str(tmp_path)!r}\n"
        )
        assert "PEP 668" in line
        assert "--python" in line

    def test_what_cannot_be_installed_is_named_below_what_pip_said(
        self, environment: Callable
    ):
        done = environment().install("--from", "/nonexistent/x.whl")
        assert "/nonexistent/x.whl cannot be installed" in last_line(done)
        assert len(done.stderr.splitlines()) > 2


class TestWhereItIsRun:
    def test_no_module_that_lies_there_is_run(self, environment: Callable):
        host = environment()
        trap = "import pathlib; pathlib.Path(__file__).with_suffix('.run').touch()"
        for name in ("sysconfig", "pip", "ensurepip", "hermes_cli", "hermes_pgmemory"):
            (host.user_home / f"{name}.py").write_text(trap)
        done = host.install("--uninstall")
        assert NOT_THERE in done.stderr
        assert list(host.user_home.glob("*.run")) == []


class TestAfterTheLastPackageIsGone:
    """Somebody uninstalled the package by hand; the host still asks for it."""

    @pytest.mark.parametrize("what", ["door", "provider", "foreign", "nothing"])
    def test_uninstall_says_what_is_left(self, environment: Callable, what: str):
        host = environment()
        home = host.user_home / ".hermes"
        (home / "plugins").mkdir(parents=True)
        provider = "honcho" if what == "nothing" else "pgvector"
        (home / "config.yaml").write_text(f"memory: {{provider: '{provider}'}}\n")
        if what in ("door", "foreign"):
            folder = home / "plugins" / "pgvector"
            folder.mkdir()
            mark = "# Door of hermes-pgmemory 1.0.0, checksum 0\n"
            (folder / "__init__.py").write_text(mark if what == "door" else "# mine\n")
        done = host.install("--uninstall")
        assert NOT_THERE in done.stderr
        if what in ("door", "provider"):
            assert "still in the host" in last_line(done)
        else:
            assert done.returncode == 0


class TestInstalling:
    def test_from_the_checkout_twice_and_away_again(self, environment: Callable):
        host = environment()
        for _ in range(2):
            done = host.install("--no-setup")
            assert done.returncode == 0, done.stderr
            assert "hermes-pgvector setup" in done.stderr
        assert host.can_import()
        assert list(host.user_home.iterdir()) == []
        home = host.user_home / "home"
        done = host.install("--uninstall", "--home", home)
        assert done.returncode == 0, done.stderr
        assert not host.can_import()
        assert not (host.path / "bin" / "hermes-pgvector").exists()

    def test_an_environment_without_pip_is_given_one(
        self, environment: Callable, without_pip: Path, built
    ):
        host = environment(site=without_pip)
        done = host.install("--no-setup", "--from", built.wheel)
        assert done.returncode == 0, done.stderr
        assert host.can_import()

    def test_or_is_served_by_uv(
        self, environment: Callable, without_pip: Path, outside: Path, built
    ):
        host = environment(site=without_pip)
        # Stands in for uv: keeps what it is asked, and has pip do it.
        uv = f'echo "$@" >> {outside}/asked\nshift; verb=$1; shift 3\n'
        own = f'exec {sys.executable} -m pip --python {host.python} "$verb" "$@"\n'
        script(outside / "uv", f"#!/bin/sh\n{uv}{own}")
        path = f"{host.path / 'bin'}:{outside}:/usr/bin:/bin"
        done = host.install("--no-setup", "--from", built.wheel, PATH=path)
        assert done.returncode == 0, done.stderr
        assert host.can_import()
        expected = f"pip install --python {host.python} --upgrade {built.wheel}\n"
        assert (outside / "asked").read_text() == expected

    def test_another_commit_of_the_same_version_is_installed_too(
        self, environment: Callable, without_pip: Path, outside: Path
    ):
        host = environment(site=without_pip)
        [site] = host.path.glob("lib/python3*/site-packages")
        # Stands in for uv: keeps what it is asked, and has a package appear.
        uv = f'echo "$@" >> {outside}/asked\nmkdir -p {site}/hermes_pgmemory\n'
        script(outside / "uv", f"#!/bin/sh\n{uv}")
        path = f"{host.path / 'bin'}:{outside}:/usr/bin:/bin"
        spec = "git+https://example.org/memory"
        for _ in range(2):
            done = host.install("--no-setup", "--from", spec, PATH=path)
            assert done.returncode == 0, done.stderr
        asked = (outside / "asked").read_text().splitlines()
        into = f"pip install --python {host.python}"
        upgraded, anew = "--upgrade", "--force-reinstall --no-deps"
        expected = [f"{into} {how} {spec}" for how in (upgraded, upgraded, anew)]
        assert asked == expected

    def test_a_setup_that_fails_says_how_to_go_on(
        self, environment: Callable, built, tmp_path: Path
    ):
        host = environment()
        home = tmp_path / "home"
        home.mkdir()
        (home / "config.yaml").write_text("plugins: {pgvector: {prefetch_limits: 1}}")
        done = host.install("--from", built.wheel, "--home", home)
        assert "installed, but not set up" in last_line(done)
        assert "prefetch_limits" in done.stderr
        assert host.can_import()


def test_help_names_every_option(environment: Callable):
    done = environment("bare", site=None).install("--help")
    assert done.returncode == 0
    options = ("--python", "--home", "--from", "--no-setup", "--uninstall", "--help")
    assert all(f"\n  {option}" in done.stdout for option in options)
