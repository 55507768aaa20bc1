"""The tab in the host's own dashboard, asked through the host's own server."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from dashboard_kit import HOSTILE, SECRET, TEA, Fleet
from fastapi import APIRouter, FastAPI

from hermes_pgmemory import door
from hermes_pgmemory.dashboard.tab import make_router
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE

pytestmark = pytest.mark.xdist_group("dashboard")

ASK = """
import json, os, sys, time
from pathlib import Path
from hermes_cli import web_server
from starlette.testclient import TestClient

API = "/api/plugins/pgvector"
token = {"X-Hermes-Session-Token": web_server._SESSION_TOKEN}
result = {}

with TestClient(web_server.app, base_url="http://127.0.0.1") as client:
    def ask(path, headers=token):
        answer = client.get(path, headers=headers)
        return [answer.status_code, answer.text, answer.headers.get("cache-control")]

    for name, path in json.loads(sys.argv[1]).items():
        result[name] = ask(path)
    result["stranger"] = ask(API + "/overview", {})
    end = time.monotonic() + 20
    while time.monotonic() < end:
        result["overview"] = ask(API + "/overview")
        told = json.loads(result["overview"][1])
        if told.get("detail") or (told["themes"] and told["health"]):
            break
    config = Path(os.environ["HERMES_HOME"], "config.yaml")
    settings = json.loads(config.read_text())
    settings["plugins"]["enabled"] = []
    config.write_text(json.dumps(settings))
    result["switched off"] = ask(API + "/overview")
print(json.dumps(result))
"""
TAB = "/api/plugins/pgvector"
QUESTIONS = {
    "plugins": "/api/dashboard/plugins",
    "script": "/dashboard-plugins/pgvector/dist/index.js",
    "found": f"{TAB}/search?q=when+is+tea+served&in=entries",
    "hostile": f"{TAB}/search?q=script+window.pwned&theme=research",
    "private": f"{TAB}/search?q=shoe+size+told+in+confidence",
    "no question": f"{TAB}/search",
    "no choice": f"{TAB}/search?q=tea&in=nowhere",
}


@pytest.fixture(scope="module")
def home(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fleet's home once more, with the door."""
    home = tmp_path_factory.mktemp("tab")
    config = json.loads((fleet.home / "config.yaml").read_text())
    config["plugins"]["enabled"] = ["pgvector"]
    (home / "config.yaml").write_text(json.dumps(config))
    door.install(home)
    return home


@pytest.fixture(scope="module")
def answers(home: Path) -> dict[str, list[Any]]:
    """What the host's dashboard says, by question: status, text, caching."""
    return in_host(ASK, json.dumps(QUESTIONS), home=home)


def in_host(code: str, *words: str, home: Path) -> Any:
    keep = {
        key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ
    }
    env = {
        **keep,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HOME": str(home),
        "HERMES_HOME": str(home),
        "HERMES_MANAGED_DIR": str(home / "nowhere"),
        RUNTIME_DIR_VARIABLE: str(home / "run"),
        "NO_PROXY": "127.0.0.1",
        # The host would try to install packages into this very environment.
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
        "PIP_NO_INDEX": "1",
        "UV_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def told(answer: list[Any]) -> Any:
    status, text, caching = answer
    assert (status, caching) == (200, "no-store"), text
    return json.loads(text)


class TestInTheHost:
    def test_it_lists_the_tab_under_the_plugins_own_name(self, answers, home: Path):
        plugins = {one["name"]: one for one in json.loads(answers["plugins"][1])}
        tab = plugins[(home / "plugins" / "pgvector").name]
        assert (tab["label"], tab["source"]) == ("Memory", "user")
        assert tab["tab"]["path"] == "/pgvector"
        assert answers["script"][0] == 200
        assert tab["entry"] in QUESTIONS["script"]

    def test_the_overview_counts_and_draws_every_theme(self, answers):
        overview = told(answers["overview"])
        themes = {one["theme"]: one for one in overview["themes"]}
        assert set(themes) == {"marketing", "research", "whatsapp-dm"}
        assert themes["research"]["entries"] == 56
        assert themes["whatsapp-dm"]["private"] == 7
        assert all(one["spark"]["bars"] for one in themes.values())
        assert [tile["title"] for tile in overview["tiles"]][:2] == [
            "Memories",
            "Turns",
        ]
        parts = {one["part"]: one["state"] for one in overview["health"]}
        assert parts["door"] == parts["database"] == "ok"

    def test_a_question_finds_what_answers_it_and_why(self, answers):
        found = told(answers["found"])
        assert (found["degraded"], found["turns"]) == ([], [])
        best = found["entries"][0]
        assert best["content"] == TEA
        assert best["kind"] == "about the user"
        assert 0 < best["why"]["words"] <= 1
        assert 0 < best["why"]["nearness"] <= 1

    def test_hostile_text_comes_as_it_is_in_json(self, answers):
        found = told(answers["hostile"])
        assert HOSTILE in [hit["content"] for hit in found["entries"] + found["turns"]]

    def test_nothing_of_a_contact_is_told(self, answers):
        assert told(answers["private"])["entries"]
        for _, text, _ in answers.values():
            assert SECRET not in text

    def test_a_wrong_question_is_answered_in_a_line(self, answers):
        status, text, _ = answers["no question"]
        assert (status, json.loads(text)) == (
            400,
            {"detail": "this address lacks its 'q'"},
        )
        status, text, _ = answers["no choice"]
        assert status == 400
        assert "'nowhere'" in json.loads(text)["detail"]

    def test_it_answers_only_while_the_host_lets_it(self, answers):
        assert answers["stranger"][0] == 401
        assert answers["switched off"][0] == 404


def ask(
    router: APIRouter, *paths: str, then: Callable[[], object] = lambda: None
) -> list[Any]:
    """Ask a router as the host includes it; call *then* after each answer."""
    app = FastAPI()
    app.include_router(router, prefix="/tab")

    async def answers() -> list[Any]:
        told = []
        way = httpx.ASGITransport(app)
        async with (
            router.lifespan_context(app),
            httpx.AsyncClient(transport=way, base_url="http://host") as client,
        ):
            for path in paths:
                answer = await client.get(f"/tab{path}")
                told.append((answer.status_code, answer.json()))
                then()
        return told

    return asyncio.run(answers())


class TestWhatIsMissing:
    def test_without_the_package_it_says_so(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setitem(sys.modules, "hermes_pgmemory.dashboard.tab", None)
        api = home / "plugins" / "pgvector" / "dashboard" / "plugin_api.py"
        [(status, answer)] = ask(runpy.run_path(str(api))["router"], "/overview")
        assert status == 503
        assert f"{sys.executable} cannot import hermes_pgmemory" in answer["detail"]
        assert f"{sys.executable} -m pip install" in answer["detail"]

    def test_a_home_that_is_set_up_later_needs_no_new_start(
        self, tmp_path: Path, home: Path
    ):
        def set_up() -> None:
            (tmp_path / "config.yaml").write_text((home / "config.yaml").read_text())

        before, after = ask(
            make_router(tmp_path), "/overview", "/search?q=tea", then=set_up
        )
        assert before == (
            500,
            {"detail": "no database yet: run `hermes-pgvector setup`"},
        )
        assert after[0] == 200
        assert after[1]["entries"]


class TestScript:
    def test_it_knows_no_way_to_make_text_into_markup(self, answers):
        script = answers["script"][1]
        assert "__HERMES_PLUGIN_SDK__" in script
        for way in ("HTML", "insertAdjacent", "document.write", "eval(", "href"):
            assert way not in script
