"""What others wrote is read, or refused in one line, however deep it nests."""

from __future__ import annotations

import json

import pytest

from hermes_pgmemory.foreign_json import MAX_LEVELS, TooDeepError, parsed
from hermes_pgmemory.maintenance.traces import Traces
from hermes_pgmemory.private_notes import asked_for


def nested(levels: int, inside: str = "") -> str:
    return "[" * levels + inside + "]" * levels


@pytest.mark.parametrize("text", [nested(MAX_LEVELS), '{"[[": "]{\\"["}', "7", "[]"])
def test_what_people_write_is_read(text):
    assert parsed(text) == parsed(text.encode()) == json.loads(text)


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 900, 100_000])
@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16"])
def test_what_nests_too_deeply_is_told_with_its_line(levels, encoding):
    text = f'{{"a": "[[",\n"b":\n{nested(levels)}}}'
    with pytest.raises(TooDeepError, match="in line 3") as told:
        parsed(text if encoding is None else text.encode(encoding))
    assert told.value.line == 3


def test_what_never_ends_is_no_less_deep():
    with pytest.raises(TooDeepError):
        parsed('{"a":' * 100_000)
    with pytest.raises(json.JSONDecodeError):
        parsed("[" * MAX_LEVELS)


def test_a_call_of_the_memory_tool_that_nests_hides_no_other():
    calls = [
        {"function": {"name": "memory", "arguments": arguments}}
        for arguments in ("[" * 100_000, '{"content": "a note"}')
    ]
    assert [*asked_for([{"tool_calls": calls}])] == ["a note"]


def test_a_text_is_found_however_deep_it_lies():
    traces = Traces()
    traces.add('She said "tea"')
    assert traces.in_value(nested(5_000, json.dumps('She said "tea"')))
    assert not traces.in_value(nested(5_000, json.dumps("She said")))
