from __future__ import annotations

import json

import pytest

from hermes_pgmemory.maintenance.traces import Traces

LONG = "The lighthouse keeper's daughter paints on Sundays,\n in “blue” and green."


@pytest.fixture
def traces():
    traces = Traces()
    for text in (LONG, "tea", f"{LONG[:30]} sings"):
        traces.add(text)
    return traces


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (LONG, True),
        (f"They say: {LONG} Really.", True),
        (json.dumps({"note": [{"said": LONG}]}), True),
        (LONG[:-1], False),
        (LONG[:40], False),
        (f"{LONG[:30]} sings on Mondays", True),
        ("tea", True),
        (" tea ", True),
        ("steam", False),
        ("{", False),
        ("", False),
    ],
)
def test_a_whole_text_is_found_and_a_similar_one_is_not(traces, value, found):
    assert traces.in_value(value) is found


def test_a_piece_in_raw_bytes_is_found_unless_a_living_record_holds_it(traces):
    record = json.dumps({"content": LONG})
    torn = b"\x00page" + record.encode()[-30:]
    assert traces.in_bytes(torn, [])
    assert not traces.in_bytes(b"\x00page" + record.encode(), [record])
    assert not traces.in_bytes(b"nothing of it", [])
