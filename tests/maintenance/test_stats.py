from __future__ import annotations

from maintenance_kit import START

from hermes_pgmemory.models import AgentKind, SeeAgent, Theme


class TestStats:
    def test_counts_what_every_theme_holds(self, memory, run):
        memory.apply(
            memory.entry("one"),
            memory.entry("two"),
            memory.entry("gone"),
            memory.turn("said"),
            memory.turn("quiet", embed=False),
            SeeAgent(theme=Theme("work"), kind=AgentKind.THEME, at=START),
            SeeAgent(theme=Theme("silent"), kind=AgentKind.BENCH, at=START),
            vectors={0: [1, 0, 0]},
        )
        memory.query(
            "UPDATE memory_entries SET retired_at = now() WHERE content = 'gone'"
        )
        data = run("stats", "--json").data
        silent, work = data["themes"]
        assert (silent["theme"], silent["kind"], silent["entries"]) == (
            "silent",
            "bench",
            0,
        )
        assert work == {
            "theme": "work",
            "kind": "theme",
            "entries": 2,
            "retired": 1,
            "turns": 2,
            "unembedded_entries": 1,
            "unembedded_turns": 1,
            "last_seen": work["last_seen"],
        }
        assert data["totals"] == {
            "themes": 2,
            "entries": 2,
            "retired": 1,
            "turns": 2,
            "unembedded_entries": 1,
            "unembedded_turns": 1,
        }

    def test_measures_our_tables(self, run):
        sizes = {size["table"]: size for size in run("stats", "--json").data["tables"]}
        assert {"memory_entries", "conversations", "memory_agents"} <= set(sizes)
        assert (
            sizes["memory_entries"]["total"] >= sizes["memory_entries"]["indexes"] > 0
        )

    def test_shows_the_last_runs_but_no_rehearsals(self, memory, run):
        memory.apply(memory.turn("old"))
        run("prune", "--days", "1")
        run("prune", "--days", "1", "--execute")
        run("cleanup", "--execute")
        data = run("stats", "--json").data["runs"]
        assert [one["operation"] for one in data] == ["cleanup"] * 3 + ["prune"]
        assert data[-1]["affected"] == 1
        assert data[-1]["details"]["finished"] is True
        assert len(run("stats", "--json", "--runs", "1").data["runs"]) == 1
        assert run("stats", "--runs", "-1").status == 2

    def test_people_see_it_too(self, memory, run):
        memory.apply(memory.entry("one"))
        shown = run("stats").out
        assert "work" in shown
        assert "conversations" in shown
        assert "last maintenance runs" in shown


class TestExitStatus:
    def test_a_database_that_does_not_answer_is_3(self, run, configure):
        configure(dsn="host=127.0.0.1 port=1 user=u password=hunter2")
        for words in (
            ["stats"],
            ["prune", "--days=1"],
            ["cleanup"],
            ["remap", "a", "b"],
        ):
            ran = run(*words)
            assert ran.status == 3
            assert "hunter2" not in ran.err
            assert len(ran.err.splitlines()) == 1

    def test_a_database_that_was_never_migrated_is_1(
        self, run, configure, new_database
    ):
        configure(dsn=new_database())
        ran = run("stats")
        assert ran.status == 1
        assert "hermes-pgvector migrate" in ran.err

    def test_a_home_without_a_database_stays_as_it_is(self, run, configure, tmp_path):
        configure()
        ran = run("stats")
        assert ran.status == 1
        assert "hermes-pgvector setup" in ran.err
        assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
