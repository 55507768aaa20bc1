"""The chat that a session key gives away, if it does.

Pure text work for `identity`. A key has fields, separated by `:`, `/` or `|`; the
fields of a folded key are compared, never trusted: ids may hold separators of their
own, so nothing but the kind of chat is ever read out of a key. Percent encoding and
space around fields are gone before anything is compared.

The rules of `chat_of`, first match wins. *Platform* is one of `PLATFORMS`, *type* a
chat type of the host, and behind a platform also a usual one of others.

| # | shape                                        | examples                         |
|---|----------------------------------------------|----------------------------------|
| 1 | `agent:<profile>:<platform>:<anything>`,     | agent:main:telegram:dm:12345     |
|   | `agent:<profile>:<anything>:<type>`; not one | agent:work:newchat:forum:8:3     |
|   | of the host's own only with more behind it   | agent:main:newchat:private:ann   |
| 2 | `<platform>:<type>`, anywhere                | telegram:dm:5, x:slack:channel:y |
|   | `a2a:bot`, anywhere                          | a2a:bot:weather                  |
| 3 | `dm:<something>`, anywhere                   | dm:alice                         |
| 4 | `<platform>:<id>`; in front an id may be     | sms:12345, slack:u024be7lh,      |
|   | shorter or less plain than behind fields     | irc:#ops, x:telegram:12345       |
|   | a platform and a number in one field         | telegram_dm_12345, sms 12345     |
| 5 | `webhook:<route>:<delivery>`,                | webhook:demo:deliv-1             |
|   | `group:<number>`, `direct:<number>`          | direct:4                         |
| 6 | an id on its own, in any field: seven        | +1 (555) 010-0123,               |
|   | digits with no letter between them (a date   | user-555-010-0123, @handle,      |
|   | is none), any `@`, a bare number of five     | 12345, desk:U024BE7LH            |
|   | digits or more, or a shape that one platform | !room:server, spaces/X/threads/Y |
|   | coins                                        |                                  |

Everything else is an ordinary theme: `desk:signal:main` (no id behind the platform),
`eng:channel:alerts` (no platform before the type), `team:telegram-bot:prod`,
`run-2026-01-15`. A doubt is decided for the bucket: there a key still has rows of its
own.
"""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import pairwise
from typing import Final

from hermes_pgmemory.key_text import fold, has_long_number, tidy

PLATFORMS: Final = frozenset(
    """
    a2a bluebubbles buzz dingtalk discord email feishu google_chat homeassistant
    imessage instagram irc kakaotalk lark line local mail matrix mattermost messenger
    msgraph_webhook ntfy photon qqbot raft relay rocketchat signal simplex skype slack
    sms teams telegram twitter viber vk webhook wechat wecom wecom_callback weixin
    whatsapp whatsapp_cloud xmpp yuanbao zalo zulip
    """.split()  # noqa: SIM905
)
"""Messaging platforms, the host's and the usual others, folded."""

_HOST_DM_TYPES: Final = frozenset({"dm", "c2c"})
_HOST_TYPES: Final = _HOST_DM_TYPES | {
    *("channel", "forum", "group", "guild", "room", "thread", "webhook")
}
_DM_TYPES: Final = _HOST_DM_TYPES | {"direct", "im", "private"}
_TYPES: Final = (
    _HOST_TYPES
    | _DM_TYPES
    | {"broadcast", "mpim", "newsletter", "space", "supergroup", "topic"}
)


class Chat(StrEnum):
    """Who can read along where a message came from."""

    DM = "dm"
    """One person and the agent."""
    GROUP = "group"
    """Several people, or a machine that posts for them."""


_FIELD_SEPARATOR: Final = re.compile(r" ?([:/|]) ?")
_WORD_SEPARATOR: Final = re.compile(r"[\s_.-]")

_PLATFORM_IN_FRONT: Final = re.compile(
    rf"(?:{'|'.join(sorted(PLATFORMS, reverse=True))})[\s_.-](?P<rest>.+)"
)
_NUMBER_IN_FRONT: Final = re.compile(r"[+-]?\d{3}")
_NUMBER_BEHIND: Final = re.compile(r"[+-]?\d{5}")
_OPAQUE: Final = re.compile(r"(?=.*\d.*\d)[a-z0-9_=+]{8,}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TOKEN: Final = re.compile(r"[a-z0-9]+")
_MIXED: Final = re.compile(r"[a-z]+\d|\d+[a-z]")
_TOKEN_IN_FRONT: Final = 6
_TOKEN_BEHIND: Final = 12
"""Letters and digits in a row that are no word of a theme's name any more."""
_BARE_NUMBER: Final = re.compile(r"[+-]?\d{5,}")
_FIELD: Final = r"(?:^|[:/|])"
_FIELD_END: Final = r"(?![^:/|])"
_PERSONAL_ID: Final = re.compile(
    rf"{_FIELD}(?:o[un]_[0-9a-f]{{16}}|u[0-9a-f]{{32}}{_FIELD_END}|wxid_.|8:orgid:"
    r"|8:live:|(?:29|a):1[a-z0-9_-]{20})|(?:^|:)(?:any|imessage|sms);-;"
)
_GROUP_ID: Final = re.compile(
    rf"{_FIELD}(?:!.|#[^:/|]+:[^:/|]*\.|oc_[0-9a-f]{{16}}"
    rf"|[cr][0-9a-f]{{32}}{_FIELD_END}|msgraph:.)|(?:^|:)spaces/."
    r"|(?:^|:)(?:any|imessage|sms);\+;"
)
_SLACK_ID: Final = re.compile(r"([UWDCG])[0-9][A-Z0-9]{7,10}")
_SLACK_ID_FOLDED: Final = re.compile(r"([uwdcg])[0-9](?=.*[a-z]\d+[a-z])[a-z0-9]{7,10}")
"""Lower case needs more than a digit in second place: so have g7summit and w3report."""
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_GROUP_MARK: Final = re.compile(
    rf"{_FIELD}(?:[!#]|-\d|oc_[0-9a-f]{{16}})|(?:^|:)spaces/"
    r"|@(?:thread|g\.us|chatroom|broadcast|newsletter|conference|group)"
)


def chat_of(key: str) -> Chat | None:
    """Return the kind of chat that a `tidy` key names, None for a theme."""
    key = _FIELD_SEPARATOR.sub(r"\1", tidy(key)).strip()
    folded = _FIELD_SEPARATOR.sub(r"\1", fold(key))
    fields = _fields(folded)
    return (
        _host_key(fields)
        or _platform_and_type(fields)
        or _platform_and_id(fields, folded)
        or _in_one_field(folded)
        or _conversation_id(fields)
        or _lone_id(key, folded)
    )


def _fields(key: str) -> list[str]:
    return re.split(r"[:/|]", key)


def chat_of_type(chat_type: str) -> Chat:
    """Return the kind of chat for the host's own, folded, `chat_type`."""
    return Chat.DM if chat_type in _DM_TYPES else Chat.GROUP


def _host_key(fields: list[str]) -> Chat | None:
    if len(fields) < 4 or fields[0] != "agent":
        return None
    platform, chat_type = fields[2], fields[3]
    named = chat_type in _TYPES and any(fields[4:])
    if platform in PLATFORMS or chat_type in _HOST_TYPES or named:
        return chat_of_type(chat_type)
    return None


def _platform_and_type(fields: list[str]) -> Chat | None:
    for name, following in pairwise(fields):
        if name in PLATFORMS and following in _TYPES:
            return chat_of_type(following)
        if (name, following) == ("a2a", "bot"):
            return Chat.DM
    for name, following in pairwise(fields):
        if name == "dm" and following:
            return Chat.DM
    return None


def _platform_and_id(fields: list[str], folded: str) -> Chat | None:
    for place, (name, following) in enumerate(pairwise(fields)):
        if name in PLATFORMS and _is_id(following, in_front=place == 0):
            return Chat.GROUP if _GROUP_MARK.search(folded) else Chat.DM
    return None


def _is_id(field: str, *, in_front: bool) -> bool:
    number = _NUMBER_IN_FRONT if in_front else _NUMBER_BEHIND
    return (
        field.startswith(("@", "!", "#", "+"))
        or number.match(field) is not None
        or (in_front and _OPAQUE.fullmatch(field) is not None)
        or _UUID.fullmatch(field) is not None
        or _has_token(field, _TOKEN_IN_FRONT if in_front else _TOKEN_BEHIND)
    )


def _has_token(field: str, length: int) -> bool:
    """Tell whether *field* holds letters and digits mixed, *length* or more in a row.

    A word with a number behind it, such as `migration2026`, is mixed only once.
    """
    return any(
        len(word) >= length and len(_MIXED.findall(word)) >= 2
        for word in _TOKEN.findall(field)
    )


def _in_one_field(folded: str) -> Chat | None:
    """Find a platform and a number that other separators than a field's hold apart."""
    for field in _fields(folded):
        found = _PLATFORM_IN_FRONT.fullmatch(field)
        if found is None:
            continue
        if _NUMBER_BEHIND.match(found["rest"]):
            return Chat.GROUP if found["rest"].startswith("-") else Chat.DM
        chat_type, _, rest = _WORD_SEPARATOR.sub(" ", found["rest"], 1).partition(" ")
        if chat_type in _TYPES and _NUMBER_IN_FRONT.match(rest):
            return chat_of_type(chat_type)
    return None


def _conversation_id(fields: list[str]) -> Chat | None:
    if fields[0] == "webhook" and len(fields) >= 3:
        return Chat.GROUP
    if len(fields) == 2 and fields[1].lstrip("+-").isdigit():
        return {"group": Chat.GROUP, "direct": Chat.DM}.get(fields[0])
    return None


def _lone_id(key: str, folded: str) -> Chat | None:
    if _GROUP_ID.search(folded):
        return Chat.GROUP
    if _PERSONAL_ID.search(folded):
        return Chat.DM
    if slack := _slack_id(key, folded):
        return Chat.GROUP if slack in "CG" else Chat.DM
    if "@" in folded or _BARE_NUMBER.fullmatch(folded) or has_long_number(folded):
        return Chat.GROUP if _GROUP_MARK.search(folded) else Chat.DM
    return None


def _slack_id(key: str, folded: str) -> str:
    """Return the letter that a Slack id in *key* begins with; "" if there is none."""
    if whole := _SLACK_ID.fullmatch(key):
        return whole[1]
    words = [word for part in _fields(key) for word in _WORD_SEPARATOR.split(part)]
    shouted = [(_SLACK_ID, word) for word in words]
    for pattern, word in (*shouted, *((_SLACK_ID_FOLDED, f) for f in _fields(folded))):
        # A piece of a checksum or of a UUID may look the same.
        if (found := pattern.fullmatch(word)) and not _HEX.fullmatch(word):
            return found[1].upper()
    return ""
