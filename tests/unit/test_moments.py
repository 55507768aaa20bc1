from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.moments import period


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026", "2026-01-01T00:00Z", "2027-01-01T00:00Z"),
        ("2026-05", "2026-05-01T00:00Z", "2026-06-01T00:00Z"),
        ("2026-12", "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        ("2026-5-3", "2026-05-03T00:00Z", "2026-05-04T00:00Z"),
        (" 2024-02-29 ", "2024-02-29T00:00Z", "2024-03-01T00:00Z"),
        ("2026-05-03T14:00", "2026-05-03T14:00Z", "2026-05-03T14:01Z"),
        ("2026-05-03 14:00:30", "2026-05-03T14:00:30Z", "2026-05-03T14:00:31Z"),
        ("2026-05-03t14:00z", "2026-05-03T14:00Z", "2026-05-03T14:01Z"),
        ("2026-05-03T14:00 UTC", "2026-05-03T14:00Z", "2026-05-03T14:01Z"),
        ("2026-05-03T14:00+02:00", "2026-05-03T12:00Z", "2026-05-03T12:01Z"),
        ("2026-05-03T14:00-0330", "2026-05-03T17:30Z", "2026-05-03T17:31Z"),
        ("2026-05-03T14:00+02", "2026-05-03T12:00Z", "2026-05-03T12:01Z"),
        (
            "2026-05-03T14:00:00.5",
            "2026-05-03T14:00:00.5Z",
            "2026-05-03T14:00:00.500001Z",
        ),
    ],
)
def test_a_period_is_as_long_as_what_it_names(text, start, end):
    found = period(text)
    assert found.start == datetime.fromisoformat(start)
    assert found.end == datetime.fromisoformat(end)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "now", "yesterday", "May 2026", "26-05-03", "2026-00", "2026-02-30"),
        *("2026-05-03T25:00", "2026-05-03T14", "2026-05-03T14:00+99:00", "0000"),
        *("2026-W18", "2026-05-03 - 2026-05-04", "٢٠٢٦", "2026-05-03T14:00+24:00"),
    ],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        period(text)


def test_the_calendar_has_an_end():
    assert period("9999-12-31").end.year == 9999


@given(st.datetimes(timezones=st.timezones()))
def test_what_a_result_is_dated_with_can_be_asked_for(moment):
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    found = period(moment.isoformat(timespec="seconds"))
    assert found.start == moment
    assert moment < found.end <= moment + timedelta(seconds=1)


@given(st.text(st.sampled_from("0129-:TZ+. "), max_size=25))
def test_any_text_is_read_or_refused(text):
    try:
        found = period(text)
    except ValueError:
        return
    assert found.start < found.end
