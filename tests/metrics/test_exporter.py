"""Real scrapes of a real exporter, while agents live and die."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from datetime import UTC, datetime
from itertools import pairwise

import psycopg
import pytest
from metrics_kit import (
    BIN,
    configure,
    eventually,
    growing,
    promtool,
    samples_of,
)

from hermes_pgmemory import metrics
from hermes_pgmemory.codec import encode
from hermes_pgmemory.exporter import Exporter
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.models import AgentKind, SeeAgent, Theme

ACCEPTED = ("pgmemory_writes_total", "outcome=accepted")
STORED = ("pgmemory_writes_total", "outcome=stored")
UP = ("pgmemory_database_up",)
NOWHERE = "host=127.0.0.1 port=1 user=u password=hunter2"


def command(home, *words):
    return subprocess.run(
        [str(BIN / "hermes-pgvector"), "metrics", "--home", str(home), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def seen_by(home):
    return samples_of(Exporter(home).text())


class TestCounting:
    def test_nothing_goes_back_while_processes_are_killed(self, agent, serve):
        exporter = serve()
        scrapes = [exporter.samples()]
        for number in range(3):
            one, other = agent(), agent()
            for note in range(5):
                one.do("write", f"{number} {note}")
                other.do("recall", "a question")
                scrapes.append(exporter.samples())
            one.kill()
            scrapes.append(exporter.samples())
            other.end()
            scrapes.append(exporter.samples())
        for before, after in pairwise(scrapes):
            back = {
                k: (v, after[k]) for k, v in growing(before).items() if after[k] < v
            }
            assert back == {}
        assert scrapes[-1][ACCEPTED] >= 3
        assert scrapes[-1][("pgmemory_processes",)] == 0

    def test_a_histogram_is_whole(self, agent, serve):
        one = agent()
        for _ in range(3):
            one.do("recall", "a question")
        one.end()
        samples = serve().samples()
        name = "pgmemory_recall_seconds"
        assert samples[f"{name}_count", "path=prefetch"] == 3
        assert samples[f"{name}_bucket", "le=+Inf", "path=prefetch"] == 3
        assert samples[f"{name}_sum", "path=prefetch"] > 0
        assert samples[f"{name}_count", "path=tool"] == 0

    def test_every_declared_series_is_there_from_the_start(self, home, serve):
        samples = serve().samples()
        names = {name for name, *_ in samples}
        for one in metrics.declared():
            series = f"{one.name}_count" if one.kind == "histogram" else one.name
            assert series in names
            for value in one.values:
                assert (series, f"{one.label}={value}") in samples

    def test_other_buckets_of_an_earlier_version_keep_a_histogram_monotonic(
        self, home, folder
    ):
        folder.mkdir(parents=True)
        bucket = "pgmemory_writer_batch_seconds_bucket"
        counted = [[[bucket, "0.02"], 3], [[bucket, "0.1"], 5], [[bucket, "+Inf"], 6]]
        (folder / "total.json").write_text(json.dumps({"counted": counted}))
        told = [v for (name, *_), v in seen_by(home).items() if name == bucket]
        assert told == sorted(told)
        assert told[-1] == 6


class TestLooking:
    def test_rows_are_counted_in_all(self, agent, home, dsn):
        one = agent()
        one.do("write", "a note")
        one.do("write", "another note")
        one.end()
        samples = seen_by(home)
        assert samples[UP] == 1
        assert samples["pgmemory_rows", "kind=entries"] == 2
        assert samples["pgmemory_rows_without_vectors", "kind=entries"] == 2
        assert samples["pgmemory_themes",] == 1
        assert samples["pgmemory_database_bytes",] > 0

    def test_the_database_is_asked_again_only_after_a_while(self, home, dsn):
        exporter = Exporter(home)
        first = samples_of(exporter.text())
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "INSERT INTO memory_agents (agent_identity, kind) VALUES ('x', 'theme')"
            )
        again = samples_of(exporter.text())
        assert (again["pgmemory_themes",], first["pgmemory_themes",]) == (0, 0)
        assert seen_by(home)["pgmemory_themes",] == 1

    def test_a_database_that_is_down_is_a_number(self, home, serve):
        configure(home, dsn=NOWHERE)
        exporter = serve()
        samples = exporter.samples()
        assert samples[UP] == 0
        assert ("pgmemory_themes",) not in samples
        status, said = exporter.end()
        assert (status, said) == (0, "")

    @pytest.mark.parametrize(
        "text", ["plugins: [\n", "plugins: {pgvector: {dsn: 'nonsense ='}}\n"]
    )
    def test_so_are_settings_that_cannot_be_used(self, home, text):
        (home / "config.yaml").write_text(text)
        assert seen_by(home)[UP] == 0

    def test_so_is_a_schema_that_was_never_made(self, home, new_database):
        configure(home, dsn=new_database())
        assert seen_by(home)[UP] == 0

    def test_an_embedded_server_that_is_stopped_is_neither_up_nor_down(self, home):
        configure(home)
        assert UP not in seen_by(home)

    def test_a_count_that_takes_too_long_leaves_the_database_up(
        self, home, dsn, monkeypatch
    ):
        monkeypatch.setattr("hermes_pgmemory.exporter.COUNT_S", 0.2)
        with psycopg.connect(dsn) as connection:
            connection.execute("LOCK TABLE conversations")
            samples = seen_by(home)
        assert samples[UP] == 1
        assert ("pgmemory_rows", "kind=turns") not in samples

    def test_what_waits_in_the_journal_is_seen_without_any_process(self, home):
        (home / "pgvector").mkdir()
        journal = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
        seen = SeeAgent(theme=Theme("a"), kind=AgentKind.THEME, at=datetime.now(UTC))
        journal.append([encode(seen)] * 3)
        journal.bury(journal.pending(1)[0], "refused")
        journal.note_outage(1_700_000_000.0, "down")
        samples = seen_by(home)
        journal.close()
        assert samples["pgmemory_journal_writes",] == 2
        assert samples["pgmemory_dead_letters",] == 1
        assert 0 < samples["pgmemory_journal_oldest_write_age_seconds",] < 60
        assert samples["pgmemory_outage_start_timestamp_seconds",] == 1_700_000_000
        assert samples["pgmemory_journal_bytes",] > 0

    def test_an_outage_opens_a_breaker_and_degrades_recall(self, agent, home, serve):
        configure(home, dsn=NOWHERE)
        exporter, one = serve(), agent()
        one.do("recall", "a question")
        eventually(
            lambda: exporter.samples()["pgmemory_breakers_open", "service=database"]
        )
        samples = exporter.samples()
        assert samples["pgmemory_recall_degraded_total", "missing=database"] == 1


class TestRunning:
    @pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
    def test_it_ends_cleanly_when_asked(self, serve, sent):
        exporter = serve()
        exporter.samples()
        assert exporter.end(sent) == (0, "")

    def test_it_answers_on_loopback_unless_told(self, serve):
        assert serve().url.startswith("http://127.0.0.1:")

    def test_a_port_in_use_is_one_line(self, home):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            ran = command(home, "--port", str(port))
        assert ran.returncode == 1
        [line] = ran.stderr.splitlines()
        assert "--port" in line
        assert "in use" in line

    def test_a_port_that_cannot_be_is_one_line(self, home):
        ran = command(home, "--port", "99999")
        assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)

    def test_once_prints_what_a_scrape_would(self, home, serve):
        ran = command(home, "--once")
        assert ran.returncode == 0
        assert samples_of(ran.stdout).keys() == serve().samples().keys()
        data = json.loads(command(home, "--once", "--json").stdout)
        assert {one["name"] for one in data["samples"]} >= {UP[0], STORED[0]}

    def test_promtool_finds_nothing_to_say(self, agent, home):
        one = agent()
        one.do("write", "a note")
        one.end()
        ran = promtool("check", "metrics", given=command(home, "--once").stdout)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
