"""Folders whose path no socket, shell or connection string likes."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from embedded_kit import execute, server_of, value
from psycopg.conninfo import conninfo_to_dict

from hermes_pgmemory.embedded.layout import Layout, make_alias
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, HomePaths, runtime_dir


@pytest.mark.parametrize(
    "name", ["d" * 200, 'it\'s `id` "$HOME" \\n', "one, two: Gedächtnis-記憶"]
)
def test_any_folder_will_do(home: Path, name: str) -> None:
    server = server_of(home / name)
    server.ensure_running()
    try:
        assert value(server, "SELECT 1") == 1
        execute(server, "CREATE EXTENSION vector")
        server.stop()
        server.ensure_running()
        assert value(server, "SELECT 1") == 1
    finally:
        server.stop()


def test_a_long_path_gets_a_short_link_and_keeps_its_socket(home: Path) -> None:
    server = server_of(home / ("d" * 150))
    server.ensure_running()
    status = server.status()
    assert len(str(status.socket_dir)) < 90
    assert status.socket_dir.resolve() == status.data_dir.parent / "run"
    assert str(conninfo_to_dict(server.dsn)["host"]) == str(status.socket_dir)
    status.socket_dir.unlink()
    server.ensure_running()
    assert value(server, "SELECT 1") == 1, "the link was not made again"
    server.stop()


def test_many_threads_may_make_the_same_link(home: Path) -> None:
    layout = Layout.of(HomePaths(home / ("d" * 150)).server)
    assert layout.alias is not None
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            layout.alias.unlink(missing_ok=True)
            for made in [pool.submit(make_alias, layout) for _ in range(8)]:
                made.result()
            assert layout.alias.readlink() == layout.run
    assert list(layout.alias.parent.glob(f"{layout.alias.name}.*")) == []


@pytest.mark.parametrize("whose", ["ours", "another's"])
def test_the_sessions_runtime_folder_is_used_where_it_is_ours(
    home: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    folder = home
    if whose == "another's":
        folder = Path("/usr") if os.getuid() else home / "theirs"
        folder.mkdir(exist_ok=True)
        if not os.getuid():
            os.chown(folder, 12345, -1)
    monkeypatch.delenv(RUNTIME_DIR_VARIABLE)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    assert runtime_dir().is_relative_to(folder) == (whose == "ours")


def test_one_folder_by_two_names_is_one_server(home: Path, used_home: Path) -> None:
    link = home.with_name(f"{home.name}-link")
    link.symlink_to(used_home)
    try:
        assert server_of(link).dsn == server_of(used_home).dsn
        server_of(link).ensure_running()
        assert server_of(used_home).status().running
    finally:
        link.unlink()


def test_making_a_server_looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("stat", "lstat", "readlink", "open", "scandir"):
        monkeypatch.setattr(f"os.{name}", forbidden)
    server = server_of(Path("/nonexistent"))
    monkeypatch.undo()
    assert "host='/nonexistent/pgvector/postgres/run'" in server.dsn
