"""Nothing that a theme has said before is embedded a second time."""

from __future__ import annotations

import pytest

from hermes_pgmemory import engines
from hermes_pgmemory.metrics import REGISTRY

LONG = "about the harbour, the ships and the long way home, as it was told"


@pytest.fixture
def home(home, dsn, endpoint):
    home.dsn = dsn
    home.configure(embed_url=endpoint.url, embed_model="test", bulk_sync_on_init=False)
    return home


def asked(endpoint):
    return sorted(text for batch in endpoint.batches for text in batch)


def count(source):
    return REGISTRY.get_sample_value("pgmemory_embed_texts_total", {"source": source})


def embedded(home):
    [(rows,)] = home.rows("SELECT count(embedding) FROM conversations")
    return rows


def test_the_same_words_in_another_session_and_process_are_known(
    home, endpoint, eventually
):
    before = count("model"), count("database")
    for n, session in enumerate(("s1", "s2", "s3"), 1):
        agent = home.agent(session)
        agent.sync_turn(f"the daily report {LONG}", f"here it is {LONG}")
        eventually(lambda n=n: embedded(home) == 2 * n)
        agent.shutdown()
        engines.close_all()
    assert len(asked(endpoint)) == 2
    assert (count("model"), count("database")) == (before[0] + 2, before[1] + 4)
    [(different,)] = home.rows(
        "SELECT count(DISTINCT embedding::text) FROM conversations WHERE role = 'user'"
    )
    assert different == 1


def test_twins_in_one_batch_are_asked_for_once(home, endpoint, eventually):
    before = count("batch")
    endpoint.open.clear()
    agents = [home.agent(f"s{n}") for n in range(4)]
    agents[0].sync_turn(f"first {LONG}", "")
    eventually(lambda: endpoint.batches)
    for agent in agents:
        agent.sync_turn(f"the daily report {LONG}", "")
    endpoint.open.set()
    eventually(lambda: embedded(home) == 5)
    assert len(asked(endpoint)) == 3  # in s0 it has a context
    assert count("batch") == before + 2


def test_another_theme_learns_nothing(home, endpoint, eventually):
    for n, theme in enumerate(("marketing", "engineering"), 1):
        agent = home.agent(f"s{n}", gateway_session_key=theme)
        agent.sync_turn(f"the daily report {LONG}", "")
        eventually(lambda n=n: embedded(home) == n)
    assert len(asked(endpoint)) == 2
