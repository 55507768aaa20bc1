"""What a session key gives away: its tidy form, and the chat it belongs to.

Pure text work for `identity`. A key has fields, separated by `:`, `/` or `|`; the
fields of a folded key are compared, never trusted: ids may hold separators of their
own, so nothing but the kind of chat is ever read out of a key.

The rules of `chat_of`, first match wins. *Platform* is one of `PLATFORMS`, *type* a
chat type of the host, and behind a platform also a usual one of others.

| # | shape                                        | examples                         |
|---|----------------------------------------------|----------------------------------|
| 1 | `agent:<profile>:<platform>:<anything>`,     | agent:main:telegram:dm:12345     |
|   | `agent:<profile>:<anything>:<type>`          | agent:work:newchat:forum:8:3     |
| 2 | `<platform>:<type>`, anywhere                | telegram:dm:5, x:slack:channel:y |
|   | `a2a:bot`, anywhere                          | a2a:bot:weather                  |
| 3 | `dm:<something>`, anywhere                   | dm:alice                         |
| 4 | `<platform>:<id>`; in front an id may be     | sms:12345, slack:u024be7lh,      |
|   | shorter or less plain than behind fields     | irc:#ops, x:telegram:12345       |
| 5 | `webhook:<route>:<delivery>`,                | webhook:demo:deliv-1             |
|   | `group:<number>`, `direct:<number>`          | direct:4                         |
| 6 | an id on its own, in any field: seven        | +1 (555) 010-0123,               |
|   | digits with no letter between them, any `@`, | run-2026-01-15, @handle          |
|   | a bare number of five digits or more,        | 12345                            |
|   | or a shape that one platform coins           | !room:server, spaces/X/threads/Y |

Everything else is an ordinary theme: `desk:signal:main` (no id behind the platform),
`eng:channel:alerts` (no platform before the type), `team:telegram-bot:prod`.
A doubt is decided for the bucket: there a key still has rows of its own.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from enum import StrEnum
from itertools import pairwise
from typing import Final

MAX_THEME_CHARS: Final = 128

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


_FIELD_SEPARATOR: Final = re.compile(r"[:/|]")
_ESCAPED_BYTE: Final = re.compile("[\udca0-\udcff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_NUMBER_IN_FRONT: Final = re.compile(r"[+-]?\d{3}")
_NUMBER_BEHIND: Final = re.compile(r"[+-]?\d{5}")
_OPAQUE: Final = re.compile(r"(?=.*\d.*\d)[a-z0-9_=+]{8,}")
_BARE_NUMBER: Final = re.compile(r"[+-]?\d{5,}")
_FIELD: Final = r"(?:^|[:/|])"
_FIELD_END: Final = r"(?![^:/|])"
_PERSONAL_ID: Final = re.compile(
    rf"{_FIELD}(?:o[un]_[0-9a-f]{{16}}|u[0-9a-f]{{32}}{_FIELD_END}|wxid_.|8:orgid:"
    r"|8:live:|29:1[a-z0-9_-]{20})|(?:^|:)(?:any|imessage|sms);-;"
)
_GROUP_ID: Final = re.compile(
    rf"{_FIELD}(?:!.|#[^:/|]+:[^:/|]*\.|oc_[0-9a-f]{{16}}"
    rf"|[cr][0-9a-f]{{32}}{_FIELD_END}|msgraph:.)|(?:^|:)spaces/."
    r"|(?:^|:)(?:any|imessage|sms);\+;"
)
_SLACK_ID: Final = re.compile(r"([UWDCG])[0-9][A-Z0-9]{7,10}")
_GROUP_MARK: Final = re.compile(
    rf"{_FIELD}(?:[!#]|-\d|oc_[0-9a-f]{{16}})|(?:^|:)spaces/"
    r"|@(?:thread|g\.us|chatroom|broadcast|newsletter|conference|group)"
)


def tidy(raw: object) -> str:
    """Return *raw* as printable UTF-8 text on one line, case kept; "" if not text.

    A header's bytes that were no UTF-8 arrive as lone surrogates U+DCA0 to U+DCFF
    and become the Latin-1 letters they most likely were; other lone surrogates
    become U+FFFD. Compatibility forms (full-width letters, digits and colons) become
    plain ones, white space collapses, invisible characters go.
    """
    if not isinstance(raw, str):
        return ""
    if raw.isascii():
        return _one_line(raw)
    joined = raw.encode("utf-16-le", "surrogatepass").decode(
        "utf-16-le", "surrogatepass"
    )
    text = _ESCAPED_BYTE.sub(lambda m: chr(ord(m[0]) - 0xDC00), joined)
    return _settle(_SURROGATE.sub("\ufffd", text), fold_case=False)


def fold(raw: object) -> str:
    """Return `tidy` of *raw*, case-folded; folding twice changes nothing."""
    text = tidy(raw)
    return text.lower() if text.isascii() else _settle(text, fold_case=True)


def shorten(folded: str) -> str:
    """Return a theme of at most `MAX_THEME_CHARS` characters for a folded key.

    A longer key keeps its beginning and gets a fingerprint of the whole, in letters
    only, so that two long keys stay apart and no digits are invented.
    """
    if len(folded) <= MAX_THEME_CHARS:
        return folded
    digest = hashlib.blake2b(folded.encode(), digest_size=10).hexdigest()
    letters = "".join(chr(ord("a") + int(digit, 16)) for digit in digest)
    head = folded[: MAX_THEME_CHARS - len(letters) - 1].rstrip()
    return f"{head}~{letters}"


def chat_of(key: str) -> Chat | None:
    """Return the kind of chat that a `tidy` key names, None for a theme."""
    folded = fold(key)
    fields = _FIELD_SEPARATOR.split(folded)
    return (
        _host_key(fields)
        or _platform_and_type(fields)
        or _platform_and_id(fields, folded)
        or _conversation_id(fields)
        or _lone_id(key, folded)
    )


def chat_of_type(chat_type: str) -> Chat:
    """Return the kind of chat for the host's own, folded, `chat_type`."""
    return Chat.DM if chat_type in _DM_TYPES else Chat.GROUP


def _one_line(text: str) -> str:
    if not text.isprintable():
        text = "".join(
            char
            for char in (" " if char.isspace() else char for char in text)
            if char.isprintable()
        )
    return " ".join(text.split())


def _settle(text: str, *, fold_case: bool) -> str:
    # Composing, folding and dropping feed each other, so repeat until stable. Each
    # round is idempotent on all but a handful of characters; two rounds are usual.
    for _ in range(8):
        folded = text.casefold() if fold_case else text
        after = _one_line(unicodedata.normalize("NFKC", folded))
        if after == text:
            break
        text = after
    return text


def _host_key(fields: list[str]) -> Chat | None:
    if len(fields) < 4 or fields[0] != "agent":
        return None
    platform, chat_type = fields[2], fields[3]
    if platform in PLATFORMS or chat_type in _HOST_TYPES:
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
    )


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
    if slack := _SLACK_ID.fullmatch(key):
        return Chat.GROUP if slack[1] in "CG" else Chat.DM
    if "@" in folded or _BARE_NUMBER.fullmatch(folded) or has_long_number(folded):
        return Chat.GROUP if _GROUP_MARK.search(folded) else Chat.DM
    return None


_DATE: Final = re.compile(
    r"(?<![0-9])(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])(?![0-9])"
)


def has_long_number(text: str) -> bool:
    """Tell whether *text* holds seven digits, of any script, with no letter between.

    Separators do not count, so that `+1 (555) 010-0123` is one number; neither do
    field separators, nor marks that combine with a digit. A date, as in
    `report-2026-11-30`, is no number.
    """
    digits = 0
    for char in _DATE.sub("date", text):
        if char.isdigit():
            digits += 1
            if digits == 7:
                return True
        elif char.isalpha():
            digits = 0
    return False
