"""Who is let in, told without a browser."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from dashboard_kit import HOSTILE, NOTES, SECRET, TEA, Client

from hermes_pgmemory import cli
from hermes_pgmemory.dashboard.serving import _listen
from hermes_pgmemory.errors import ConfigError, SchemaError
from hermes_pgmemory.models import Theme
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.connection import READER
from hermes_pgmemory.store.steps import FIRST

pytestmark = pytest.mark.xdist_group("dashboard")

PAGES = [
    "/",
    "/search?q=when+is+tea",
    "/theme?name=research",
    "/theme?name=whatsapp-dm",
    "/changes?theme=marketing",
    "/sessions?theme=marketing",
    "/sessions?theme=whatsapp-dm",
    "/session?theme=whatsapp-dm&id=dm-1",
    "/delegations",
    "/journal",
]


@pytest.fixture(scope="module")
def serving(serve):
    return serve()


@pytest.fixture(scope="module")
def client(serving):
    return Client(serving).enter(serving.url)


class TestToken:
    def test_it_works_once(self, serve):
        serving = serve()
        first, second = Client(serving), Client(serving)
        entrance = serving.url.removeprefix(f"http://127.0.0.1:{serving.port}")
        answer, _ = first.ask(entrance)
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert serving.url.partition("token=")[2] not in cookie
        answer, text = second.ask(entrance)
        assert answer.status == 403
        assert "Set-Cookie" not in answer.headers
        assert "works once" in text

    def test_who_only_looks_whether_it_is_there_leaves_it_unused(self, serve):
        serving = serve()
        client = Client(serving)
        entrance = serving.url.removeprefix(f"http://127.0.0.1:{serving.port}")
        answer, _ = client.ask(entrance, method="HEAD")
        assert answer.status == 403
        client.enter(serving.url)

    @pytest.mark.parametrize("given", ["", "?token=", "?token=wrong", "?token=%C3%A9"])
    def test_a_wrong_one_gets_nothing_and_spoils_nothing(self, serve, given):
        serving = serve()
        client = Client(serving)
        answer, _ = client.ask(f"/enter{given}")
        assert answer.status == 403
        client.enter(serving.url).page("/journal")

    @pytest.mark.parametrize("path", [*PAGES, "/static/style.css", "/nothing"])
    def test_without_the_cookie_there_is_nothing(self, serving, client, path):
        answer, text = Client(serving).ask(path)
        assert answer.status == 403
        assert "marketing" not in text
        name = client.headers["Cookie"].partition("=")[0]
        answer, _ = Client(serving).ask(path, Cookie=f"{name}=guessed")
        assert answer.status == 403


class TestEveryAnswer:
    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", ""])
    def test_another_hosts_name_gets_nothing(self, client, host):
        answer, _ = client.ask("/", Host=host)
        assert answer.status == 421

    @pytest.mark.parametrize("host", ["localhost:8080", "[::1]:80", "127.0.0.1"])
    def test_this_hosts_names_do(self, client, host):
        answer, _ = client.ask("/journal", Host=host)
        assert answer.status == 200

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
    def test_nothing_but_reading_is_possible(self, client, method):
        answer, _ = client.ask("/", method=method)
        assert answer.status == 405

    @pytest.mark.parametrize("path", [*PAGES, "/static/app.js", "/nothing", "/enter"])
    def test_it_forbids_what_it_does_not_need(self, client, path):
        headers = client.ask(path)[0].headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"

    @pytest.mark.parametrize("path", PAGES)
    def test_no_page_has_script_or_style_of_its_own(self, client, path):
        text = client.page(path)
        assert text.count("<script") == 1
        assert "<script src=" in text
        assert " style=" not in text
        assert "<style" not in text
        assert HOSTILE not in text


class TestAsking:
    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/nothing", 404),
            ("/theme", 400),
            ("/theme?name=marketing&after=yesterday~x", 400),
            ("/theme?name=marketing&after=2026-01-01~3", 400),
            ("/theme?name=marketing&show=everything", 400),
            ("/theme?name=a%00b", 400),
            (f"/theme?name=marketing&after=2026-01-01T00:00Z~{'9' * 5000}", 400),
            ("/entry?theme=marketing&id=0", 404),
            ("/entry?theme=marketing&id=99999999999999999999", 404),
            ("/entry?theme=marketing&id=%3Cb%3E", 400),
            ("/sessions?theme=marketing&before=2026-01-01", 400),
        ],
    )
    def test_nonsense_is_a_page_that_says_so(self, client, path, status):
        answer, text = client.ask(path)
        assert answer.status == status
        assert "Back to the overview" in text
        assert "<b>" not in text

    def test_pages_follow_each_other_without_gap_or_repetition(self, client):
        seen, path, count = [], "/theme?name=research", 0
        while path:
            text = client.page(path)
            seen += [
                part.partition(" of the assay")[0]
                for part in text.split(">Sample ")[1:]
            ]
            _, found, rest = text.partition('rel="next" href="')
            path = rest.partition('"')[0].replace("&amp;", "&") if found else None
            count += 1
        assert (count, len(seen), len(set(seen))) == (2, 55, 55)
        assert seen == sorted(seen, key=int)

    def test_retired_rows_are_marked_and_can_be_left_out(self, client):
        whole = client.page("/theme?name=marketing")
        assert "retired" in whole.partition("Press releases")[0].rpartition("<li")[2]
        assert "Press rel" not in client.page("/theme?name=marketing&show=in-use")
        only = client.page("/theme?name=marketing&show=retired")
        assert "Press rel" in only
        assert NOTES[0] not in only
        assert TEA in client.page("/theme?name=marketing&target=user")

    def test_what_a_memory_said_before_is_shown_with_what_it_says_now(self, client):
        text = client.page("/changes?theme=marketing")
        before, _, now = text.partition("mostly on Tuesday")
        assert "replaced" in before
        assert "on Sundays. &lt;b&gt;New&lt;/b&gt;" in now
        assert "Nothing was changed" in client.page("/changes?theme=research")


class TestPrivacy:
    @pytest.mark.parametrize("path", [*PAGES, "/search?q=shoe+size+told+in+confidence"])
    def test_what_belongs_to_a_contact_is_hidden(self, client, path):
        assert "shoe size is" not in client.page(path)

    def test_but_its_number_is_told(self, client):
        assert "private, 6 turns" in client.page("/session?theme=whatsapp-dm&id=dm-1")
        assert "private, 1 row" in client.page("/theme?name=whatsapp-dm")
        delegations = client.page("/delegations")
        assert "private, 1 delegation" in delegations
        assert "dm-1" not in delegations
        assert "child-dm" not in delegations
        assert "private, 6 turns" in client.page("/sessions?theme=whatsapp-dm")
        row = client.page("/entry?theme=whatsapp-dm&id=3")
        assert "--show-private" in row
        assert "Last change" not in row

    def test_an_operator_may_decide_to_see_it(self, serve):
        serving = serve(show_private=True)
        open_ = Client(serving).enter(serving.url)
        assert "shoe size is" in open_.page("/theme?name=whatsapp-dm")
        assert "part 5" in open_.page("/session?theme=whatsapp-dm&id=dm-1")
        assert "child-dm" in open_.page("/delegations")
        assert "shoe size is" not in open_.page("/journal")


class TestDatabase:
    def test_every_transaction_is_read_only(self, fleet):
        store = Store(fleet.dsn, read_only=True)
        with (
            pytest.raises(Exception, match="read-only transaction"),
            store._database.transaction(5) as conn,
        ):
            conn.execute("DELETE FROM memory_entries")
        assert store.counts(timeout_s=5)
        store.close()

    def test_it_reads_as_the_reader_where_there_is_one(self, fleet, dsn_admin):
        dsn_admin.execute(f"CREATE ROLE {READER}")
        store = Store(fleet.dsn, read_only=True)
        try:
            with pytest.raises(SchemaError, match="permission denied"):
                store.views.private_rows(timeout_s=5)
            dsn_admin.execute(
                f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}"
            )
            page = {"target": None, "retired": None, "after": FIRST, "limit": 5}
            rows = store.views.entries(
                Theme("marketing"), **page, show_private=False, timeout_s=5
            )
            assert len(rows) == 5
        finally:
            store.close()
            dsn_admin.execute(f"DROP OWNED BY {READER}")
            dsn_admin.execute(f"DROP ROLE {READER}")

    def test_one_that_is_down_is_told_on_every_page(self, serve, tmp_path):
        serving = serve(dsn="host=127.0.0.1 port=1 user=u password=hunter2")
        client = Client(serving).enter(serving.url)
        for path in ("/", "/search?q=tea", "/theme?name=marketing"):
            answer, text = client.ask(path)
            assert answer.status == (503 if "theme" in path else 200)
            assert "no database" in text
            assert "hunter2" not in text


def test_a_port_in_use_is_one_line(serving):

    with pytest.raises(ConfigError, match=f"--port: {serving.port} of 127.0.0.1"):
        _listen(serving.port)


def test_the_command_prints_the_way_in_and_ends_when_asked(fleet):
    command = [sys.executable, "-m", "hermes_pgmemory", "dashboard", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--home", str(fleet.home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = process.stderr.readline().removeprefix("open ").strip()
        assert url.startswith("http://127.0.0.1:")

        class Printed:
            port = int(url.split(":")[2].partition("/")[0])

        page = Client(Printed).enter(url).page("/journal")
        assert "CharacterNotInRepertoire" in page
        assert SECRET not in page
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "", "")


def test_the_command_makes_no_database(tmp_path, capsys):
    assert cli.main(["dashboard", "--home", str(tmp_path)]) == 1
    assert "hermes-pgvector setup" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
