"""What agents see of a database that was taken over, and what they do to it."""

from __future__ import annotations

import json

import adoption_kit as kit
import pytest

from hermes_pgmemory.models import AddTurn, Role, Theme
from hermes_pgmemory.store import migrate
from hermes_pgmemory.store.turns import turn_key

NOTES = [f"note number {n} about subject-{n}" for n in range(3)]


def recalled(agent, query, **more):
    answer = json.loads(
        agent.handle_tool_call("recall_memory", {"query": query, "limit": 20, **more})
    )
    assert "degraded" not in answer, answer
    # A contact may not ask beyond the bucket, and is told so.
    return [hit["content"] for hit in answer.get("results", [])]


def rows(dsn, text):
    return kit.query(
        dsn,
        "SELECT agent_identity, model_id FROM memory_entries WHERE content = %s",
        text,
    )


class TestHooks:
    def test_they_go_on_writing_into_vector_columns(
        self, adopted, agent_on, eventually
    ):
        agent = agent_on(adopted)
        agent.on_memory_write("add", "memory", "a brand new note", {})
        agent.on_memory_write(
            "replace", "memory", "note five, replaced", {"old_text": "number 5 about"}
        )
        agent.on_memory_write("remove", "memory", "", {"old_text": "number 6 about"})
        said = "What did we say about the new harbour last week, exactly?"
        agent.sync_turn(said, "We said it should be deeper than the old one.")
        eventually(
            lambda: (
                rows(adopted, "note five, replaced") == [("work", 1)]
                and rows(adopted, "note number 6 about subject-6") == []
                and kit.query(
                    adopted,
                    "SELECT model_id FROM conversations WHERE content = %s",
                    said,
                )
                == [1]
            )
        )
        assert rows(adopted, "a brand new note") == [("work", 1)]
        assert rows(adopted, "note number 5 about subject-5") == []
        assert "a brand new note" in recalled(agent, "brand new note")

    def test_what_the_host_says_again_is_the_same_row(
        self, adopted, agent_on, eventually
    ):
        count = "SELECT count(*) FROM memory_entries"
        before = kit.query(adopted, count)
        agent = agent_on(adopted)
        agent.on_memory_write("add", "memory", NOTES[1], {})
        agent.on_memory_write("add", "memory", "the last one", {})
        eventually(lambda: rows(adopted, "the last one"))
        assert kit.query(adopted, count) == [before[0] + 1]

    def test_the_files_are_imported_onto_the_rows_they_made(
        self, adopted, agent_on, tmp_path, eventually
    ):
        before = kit.query(adopted, "SELECT count(*) FROM memory_entries")
        file = tmp_path / "agents" / "memories" / "MEMORY.md"
        file.write_text("\n§\n".join(NOTES))
        agent_on(adopted)
        owned = (
            "SELECT content FROM memory_entries WHERE source IS NOT NULL ORDER BY id"
        )
        eventually(lambda: kit.query(adopted, owned) == NOTES)
        assert kit.query(adopted, "SELECT count(*) FROM memory_entries") == before

    def test_a_turn_that_is_told_again_is_the_same_turn(self, adopted):
        turns = kit.query(
            adopted,
            "SELECT role, content, turn_key, session_id FROM conversations"
            " WHERE agent_identity = 'work' ORDER BY id",
        )
        seen: dict[tuple[str, str, str], int] = {}
        for role, content, key, session in turns:
            place = (session, role, content)
            seen[place] = seen.get(place, 0) + 1
            turn = AddTurn(
                theme=Theme("work"),
                session_id=session,
                role=Role(role),
                content=content,
                ordinal=seen[place],
                at=None,
            )
            assert turn_key(turn) == key, content
        assert seen["s2", "user", "said twice"] == 2

    def test_rows_without_vectors_are_found_by_backfill(self, adopted, run, endpoint):
        status, out, err = run(
            "backfill", "--json", dsn=adopted, embed_url=endpoint.url
        )
        told = json.loads(out)
        assert status == 0, err
        waiting = sum(table["waiting"] for table in told["tables"].values())
        assert waiting == 7
        assert told["embedded"] + told["refused"] == 7

    def test_cleanup_finds_the_blank_and_the_doubled_rows(self, adopted, run):
        status, out, _ = run("cleanup", "--execute", "--json", dsn=adopted)
        tables = json.loads(out)["tables"]
        assert status == 0
        assert tables["memory_entries"]["affected"] == 1
        # Said twice within one transaction: at one instant, so told twice.
        assert tables["conversations"] == {"affected": 2, "dropped_dupes": 1}


class TestPrivacy:
    def test_a_contact_finds_what_stood_under_their_key(self, adopted, contact_on):
        agent = contact_on(
            adopted,
            platform="whatsapp",
            gateway_session_key=kit.NATIVE,
            user_id=f"{kit.PHONE}@s.whatsapp.net",
        )
        assert sorted(recalled(agent, "dm")) == ["dm under its key", "dm with its key"]

    @pytest.mark.parametrize(
        "kwargs",
        [
            {
                "platform": "whatsapp",
                "gateway_session_key": "agent:main:whatsapp:dm:15550100999",
            },
            {"gateway_session_key": "whatsapp-dm"},
            {"gateway_session_key": f"+{kit.PHONE}9"},
            {"agent_identity": "work"},
            {"agent_identity": "default"},
        ],
    )
    @pytest.mark.parametrize("scope", ["current", "all", "whatsapp-dm"])
    def test_nobody_else_finds_any_of_it(self, adopted, contact_on, kwargs, scope):
        agent = contact_on(adopted, **kwargs)
        for query in ("dm", "dm of nobody", "key"):
            found = recalled(agent, query, scope=scope)
            assert not [text for text in found if "dm" in text or "key" in text]

    def test_an_api_client_finds_what_it_wrote_under_its_key(self, adopted, contact_on):
        agent = contact_on(adopted, gateway_session_key=f"+{kit.PHONE}")
        assert recalled(agent, "key") == ["an api key's"]

    @pytest.mark.parametrize(
        ("key", "who"),
        [
            (
                "agent:main:telegram:dm:12345",
                {"chat_type": "dm", "chat_id": "12345", "user_id": "12345"},
            ),
            (
                "agent:main:telegram:group:-100123:777",
                {"chat_type": "group", "chat_id": "-100123", "user_id": "888"},
            ),
        ],
    )
    @pytest.mark.parametrize("noted", [True, False])
    def test_a_chat_that_its_id_names_finds_its_rows(
        self, old, contact_on, key, who, noted
    ):
        bucket = "whatsapp-dm" if who["chat_type"] == "dm" else "external-group"
        with kit.Old(old) as writer:
            if noted:
                writer.entry("violets, always", theme=bucket, raw_identity=key)
            else:
                writer.entry("violets, always", theme=key)
        migrate.upgrade(old, kit.MODEL)
        theirs = contact_on(old, platform="telegram", gateway_session_key=key, **who)
        assert recalled(theirs, "violets") == ["violets, always"]
        stranger = {**who, "chat_id": "-4", "user_id": "4"}
        key = key.replace("12345", "4").replace("-100123", "-4")
        other = contact_on(
            old, platform="telegram", gateway_session_key=key, **stranger
        )
        assert recalled(other, "violets") == []

    @pytest.mark.parametrize("release", ["0.3.1", "1.0.0"])
    def test_no_raw_identity_is_left(self, old_of, release):
        dsn = old_of(release)
        with kit.Old(dsn) as old:
            if release == "1.0.0":
                old.conn.execute(
                    "INSERT INTO memory_agents (agent_identity) VALUES (%s), ('work')",
                    [kit.NATIVE],
                )
                old.conn.execute(
                    "INSERT INTO memory_agent_edges (parent_identity, child_identity,"
                    " parent_session_id, attrs)"
                    """ VALUES (%s, NULL, 'p', '{"task": "t"}')""",
                    [kit.NATIVE],
                )
                old.conn.execute(
                    "INSERT INTO memory_maintenance_log (operation, identity_pattern)"
                    " VALUES ('remap_identity', %s), ('prune', 'work')",
                    [f"{kit.NATIVE} -> work"],
                )
        migrate.upgrade(dsn, kit.MODEL)
        for table in kit.query(
            dsn,
            "SELECT relname::text FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace",
        ):
            text = kit.query(
                dsn, f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t"
            )[0]
            assert kit.PHONE not in text, table
        if release == "1.0.0":
            assert kit.query(
                dsn, "SELECT agent_identity, kind FROM memory_agents ORDER BY 1"
            ) == [("whatsapp-dm", "dm"), ("work", "theme")]
            assert kit.query(dsn, "SELECT task FROM memory_agent_edges") == ["t"]
            assert kit.query(
                dsn, "SELECT identity_pattern FROM memory_maintenance_log ORDER BY id"
            )[:2] == ["(a contact's key)", "work"]


def test_names_are_those_that_agents_have_now(adopted, agent_on):
    agent = agent_on(adopted, agent_identity="Work")
    assert "only in capitals" in recalled(agent, "only in capitals")


def test_new_rows_get_new_ids(adopted, agent_on, eventually):
    last = kit.query(adopted, "SELECT max(id) FROM memory_entries")[0]
    agent_on(adopted).on_memory_write("add", "memory", "the newest", {})
    eventually(lambda: rows(adopted, "the newest"))
    assert kit.query(
        adopted, "SELECT id > %s FROM memory_entries WHERE content = 'the newest'", last
    ) == [True]


def test_a_move_to_another_model_takes_its_vector_columns_along(
    adopted, run, endpoint, agent_on, dsn_of
):
    for model in ("another", "nomic-embed-text"):
        status, out, err = run(
            *("reembed", "--to", model, "--execute", "--drop-old", "--json"),
            dsn=adopted,
            embed_url=endpoint.url,
        )
        assert (status, json.loads(out)["switched"]) == (0, True), err
    done, fresh = kit.shape(adopted), kit.shape(dsn_of(kit.DIMENSION))
    for name in done:
        assert done[name] == fresh[name], name
    assert NOTES[1] in recalled(agent_on(adopted), NOTES[1])
