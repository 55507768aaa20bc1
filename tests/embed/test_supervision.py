"""Whom `server stop` ends: every local server of ours, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes_pgmemory.embed import (
    local_server_status,
    local_servers,
    stop_local_server,
)
from hermes_pgmemory.embed.runtime import Owner, server_files, take_lock, write_owner
from hermes_pgmemory.errors import EmbedderUnavailable

SLEEP = "import time; time.sleep(60)"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners")


Holding = Iterator[Callable[..., subprocess.Popen[bytes]]]


@pytest.fixture
def holding(runtime_dir: Path) -> Holding:  # noqa: ARG001 - the locks lie there
    """Start a process that holds the lock of a model, and looks as one is told."""
    with ExitStack() as stack:

        def holding(hub_model: str = "", *, like: str = "") -> subprocess.Popen[bytes]:
            files = server_files(hub_model)
            lock = take_lock(files.lock)
            assert lock is not None
            words = like.format(socket=files.socket).split()
            command = [sys.executable, "-c", SLEEP, *words]
            process = subprocess.Popen(command, pass_fds=(lock,))
            stack.callback(process.wait)
            stack.callback(process.kill)
            write_owner(lock, Owner(process.pid, 0.0))
            os.close(lock)
            return process

        yield holding


SERVER = "hermes_pgmemory.embed.local_server --socket={socket}"


def test_the_servers_of_all_models_are_ended(holding):
    both = holding(like=SERVER), holding("fastembed:any", like=SERVER)
    assert {one.pid for one in local_servers()} == {one.pid for one in both}
    assert stop_local_server() is True
    assert all(one.wait(timeout=5) for one in both)
    assert local_servers() == []
    assert stop_local_server() is False


@pytest.mark.parametrize(
    "like",
    [
        "",
        "hermes_pgmemory.embed.local_server",
        f"{SERVER}.other",
        "vim --socket={socket}",
    ],
)
def test_a_process_that_is_no_such_server_is_spared(holding, like):
    process = holding(like=like)
    with pytest.raises(EmbedderUnavailable, match="not among the processes here"):
        stop_local_server(timeout_s=0.1)
    assert process.poll() is None


@as_root
@pytest.mark.parametrize("whose", ["the folder", "the lock"])
def test_a_note_of_another_user_is_not_believed(holding, runtime_dir, whose):
    process = holding(like=SERVER)
    theirs = runtime_dir if whose == "the folder" else server_files().lock
    os.chown(theirs, 12345, -1)
    try:
        if whose == "the folder":
            for look in (stop_local_server, local_server_status, local_servers):
                with pytest.raises(EmbedderUnavailable, match="another user"):
                    look()
        else:
            assert stop_local_server() is False
            assert local_server_status() is None
        assert process.poll() is None
    finally:
        os.chown(theirs, os.getuid(), -1)


def test_a_folder_that_others_may_write_to_is_not_believed(holding, runtime_dir):
    process = holding(like=SERVER)
    runtime_dir.chmod(0o777)
    with pytest.raises(EmbedderUnavailable, match="other users may write"):
        stop_local_server()
    assert process.poll() is None


@pytest.mark.usefixtures("runtime_dir")
def test_a_pipe_in_the_place_of_a_lock_makes_nobody_wait():
    os.mkfifo(server_files().lock)
    assert stop_local_server() is False
    assert local_server_status() is None
