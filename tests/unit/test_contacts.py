"""What hides a contact: for good, and until the database's key is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.contacts import Contact, sealed, unsealed, veiled

KEY, STAND_IN = b"k" * 32, b"s" * 32
NAMES = st.text(st.characters(), min_size=1, max_size=40)


@given(NAMES)
def test_what_was_sealed_becomes_what_it_would_have_been(name: str):
    contact, token = Contact("telegram", name), sealed(name, STAND_IN)
    record = f'{{"a":"{contact.sealed(STAND_IN)}","b":["{token}"]}}'
    assert unsealed(record, stand_in=STAND_IN, key=KEY) == (
        f'{{"a":"{contact.subject(KEY)}","b":["{veiled(name, KEY)}"]}}'
    )
    assert sealed(name, STAND_IN) == token


def test_what_only_looks_sealed_stays_as_it_is():
    foreign = f"{sealed('+15550100', b'x' * 32)} sealed-who-{'0' * 40} sealed-chat-1"
    assert unsealed(foreign, stand_in=STAND_IN, key=KEY) == foreign
