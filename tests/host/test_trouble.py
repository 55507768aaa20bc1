"""Something is missing or wrong: the agent works, and one clear line says what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from _quickstart.chat_model import ChatModel
from _quickstart.gateway import Gateway, free_port
from _quickstart.host import Home
from host_kit import Database, MakeHome, Proxy, call, eventually, results_of
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.models import EmbeddingModel

TURN = "Something of substance was said here, number {}, worth keeping."


def warnings_of(home: Home) -> list[str]:
    """Return what our package logged as a warning or worse, in the host's own log."""
    return [
        line
        for line in home.log_lines()
        if "hermes_pgmemory" in line and (" WARNING " in line or " ERROR " in line)
    ]


@contextmanager
def running(home: Home, tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(home, tmp_path / "gateway.log") as gateway:
        yield gateway


def converse(gateway: Gateway, theme: str) -> None:
    """Hold three turns; each writes, and recalls by itself and by tool."""
    for number in range(3):
        text = TURN.format(number)
        add = call("memory", action="add", target="memory", content=f"fact {number}")
        recall = call("recall_memory", query=f"fact {number}")
        answer = gateway.ask(f"{text}\n{add}\n{recall}", key=theme)
        assert TURN.format(number) in answer.text


class TestOneClearLine:
    def test_an_embedding_endpoint_that_does_not_answer_and_an_unknown_setting(
        self,
        make_home: MakeHome,
        chat_model: ChatModel,
        database: Database,
        local_model: EmbeddingModel,
        theme: str,
        tmp_path: Path,
    ):
        url = f"http://127.0.0.1:{free_port()}/v1"
        settings = {
            "dsn": database.dsn,
            "embed_url": url,
            "embed_model": local_model.name,
            "prefetch_limits": 3,
        }
        home = make_home(tmp_path / "home", settings)
        with running(home, tmp_path) as gateway:
            converse(gateway, theme)
            facts = [f"fact {number}" for number in range(3)]
            eventually(lambda: database.entries(theme), facts)
            found = results_of(
                gateway, chat_model, theme, "recall_memory", query="fact 1"
            )
            assert found[0]["content"] == "fact 1"
        setting, endpoint = warnings_of(home)
        assert "prefetch_limits" in setting
        assert "did you mean 'prefetch_limit'" in setting
        assert "stored without vectors" in endpoint

    def test_a_database_that_nobody_migrated(
        self, make_home: MakeHome, unmigrated: Database, theme: str, tmp_path: Path
    ):
        home = make_home(tmp_path / "home", {"dsn": unmigrated.dsn})
        with running(home, tmp_path) as gateway:
            converse(gateway, theme)
            eventually(lambda: len(warnings_of(home)), 1)
        [line] = warnings_of(home)
        assert "hermes-pgvector migrate" in line

    def test_a_package_that_is_not_installed(
        self, make_home: MakeHome, database: Database, theme: str, tmp_path: Path
    ):
        home = make_home(tmp_path / "home", {"dsn": database.dsn})
        shadow = tmp_path / "shadow" / "hermes_pgmemory"
        shadow.mkdir(parents=True)
        # Found before the installed one, and as good as not there.
        missing = "raise ModuleNotFoundError(name=__name__)"
        (shadow / "__init__.py").write_text(missing)
        path = {"PYTHONPATH": str(shadow.parent)}
        home = replace(home, extra_env={**home.extra_env, **path})
        with running(home, tmp_path) as gateway:
            for number in range(3):
                text = TURN.format(number)
                assert text in gateway.ask(text, key=theme).text
        [line] = warnings_of(home)
        assert "pip install hermes-pgmemory" in line

    def test_a_database_that_does_not_answer_and_nothing_is_lost_by_a_kill_meanwhile(
        self,
        make_home: MakeHome,
        proxy: Proxy,
        database: Database,
        theme: str,
        tmp_path: Path,
    ):
        dsn = make_conninfo(proxy.dsn, password="hush")
        home = make_home(tmp_path / "home", {"dsn": dsn})
        proxy.shut()
        with running(home, tmp_path) as gateway:
            converse(gateway, theme)
            eventually(lambda: len(warnings_of(home)), 1)
            gateway.kill()
        [line] = warnings_of(home)
        assert "database" in line or "PostgreSQL" in line
        assert "hush" not in "\n".join(home.log_lines())
        proxy.open()
        with running(home, tmp_path) as gateway:
            facts = [f"fact {number}" for number in range(3)]
            gateway.ask(TURN.format("after"), key=theme)
            eventually(lambda: database.entries(theme), facts)
