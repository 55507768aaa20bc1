"""Every write comes back from the journal as it went in."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.codec import ENTRY_RECORDS, decode, encode
from hermes_pgmemory.errors import UnstorableWrite
from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    AgentKind,
    RecordDelegation,
    RemoveEntry,
    ReplaceEntry,
    Role,
    SeeAgent,
    Target,
)

text = st.text(max_size=60)
maybe = st.none() | text
# Microseconds survive a float of seconds for the next few centuries.
times = st.datetimes(
    min_value=datetime(1971, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
metadata = st.dictionaries(text, st.none() | st.booleans() | st.integers() | text)
common = {"theme": text, "subject": maybe, "at": times, "metadata": metadata}
entry = common | {"target": st.sampled_from(Target), "source": maybe}

writes = st.one_of(
    st.builds(AddEntry, content=text, **entry),
    st.builds(ReplaceEntry, content=text, old_text=text, previous=maybe, **entry),
    st.builds(RemoveEntry, old_text=text, previous=maybe, **entry),
    st.builds(
        AddTurn,
        session_id=text,
        parent_session_id=maybe,
        role=st.sampled_from(Role),
        content=text,
        ordinal=st.integers(1, 9),
        context=text,
        embed=st.booleans(),
        brought_from=st.dictionaries(text, st.floats(0, 1e10)),
        **common,
    ),
    st.builds(
        RecordDelegation,
        parent_session_id=text,
        child_session_id=text,
        task=text,
        **common,
    ),
    st.builds(SeeAgent, theme=text, kind=st.sampled_from(AgentKind), at=times),
)


@given(writes)
def test_what_is_encoded_decodes_to_itself(write):
    assert decode(encode(write)) == write


@given(writes)
def test_a_record_is_one_line_of_ascii(write):
    line = encode(write)
    assert line.isascii()
    assert "\n" not in line


@given(writes)
def test_writes_to_entries_are_known_by_how_they_begin(write):
    of_entry = isinstance(write, AddEntry | ReplaceEntry | RemoveEntry)
    assert encode(write).startswith(ENTRY_RECORDS) == of_entry


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "null",
        '{"w":"later"}',
        '{"w":"add","theme":"x"}',
        '{"w":"agent","theme":"x","kind":"theme","at":1e300}',
        '{"w":"agent","theme":"x","kind":"theme","at":1,"new_field":1}',
    ],
)
def test_a_damaged_or_newer_record_is_refused_not_guessed(line):
    with pytest.raises(UnstorableWrite, match="not readable"):
        decode(line)
