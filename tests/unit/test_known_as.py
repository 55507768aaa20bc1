"""What an operator knows of a contact leads to the contact that the hooks make."""

from __future__ import annotations

import pytest

from hermes_pgmemory.identity import Policy, resolve
from hermes_pgmemory.maintenance.known_as import contacts

SAID = (
    *("gateway_session_key", "agent_identity", "agent_workspace", "platform"),
    *("chat_type", "user_id", "user_id_alt", "chat_id"),
)


def told(**said):
    policy = Policy(aliases={}, allowed_themes=(), bench_mode="bucket")
    return resolve(**(dict.fromkeys(SAID) | said), policy=policy).contact


@pytest.mark.parametrize(
    ("known_as", "said"),
    [
        (
            "+1 555 0100 201",
            {
                "platform": "whatsapp",
                "chat_type": "dm",
                "gateway_session_key": "agent:h:whatsapp:dm:15550100201@s.whatsapp.net",
                "user_id": "15550100201@lid",
            },
        ),
        ("+15550100203", {"platform": "signal", "user_id": "+15550100203"}),
        (
            "agent:main:telegram:dm:12345:17",
            {
                "platform": "telegram",
                "chat_type": "dm",
                "gateway_session_key": "agent:main:telegram:dm:12345:17",
                "user_id": "12345",
                "chat_id": "12345",
            },
        ),
        ("telegram:12345", {"platform": "telegram", "user_id": 12345}),
        (
            "telegram:12345",
            {
                "platform": "api_server",
                "gateway_session_key": "telegram:12345",
            },
        ),
        ("dora.moniker", {"platform": "discord", "user_id": "@dora.moniker"}),
        (
            "!cellar:chat.example",
            {
                "platform": "matrix",
                "chat_type": "group",
                "chat_id": "!cellar:chat.example",
                "user_id": "@dora:chat.example",
            },
        ),
        ("freya@mail.example", {"platform": "email", "user_id": "freya@mail.example"}),
    ],
)
def test_it_is_among_those_that_are_tried(known_as, said):
    assert told(**said) in contacts(known_as)


def test_a_platform_narrows_them():
    one = told(platform="signal", user_id="+15550100203")
    assert one in contacts("+15550100203", platform="Signal")
    assert one not in contacts("+15550100203", platform="telegram")


def test_nothing_is_nobody():
    assert contacts("  ") == set()
