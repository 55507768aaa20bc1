"""Text at the edge: made storable, judged, flattened, split and shown.

Everything is pure and linear in the length of its input, and takes whatever the host
or a file may hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

_UNSTORABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LINE_END: Final = re.compile("\r\n?")


def clean(text: object, *, max_chars: int) -> str:
    """Return *text* as every store and embedder takes it; "" if it is no text.

    Control characters other than newline and tab go, first of all NUL, which
    PostgreSQL refuses; line ends become newlines; halves of a surrogate pair are
    joined and lone ones become U+FFFD. Of a longer text the first characters stay,
    with a mark that tells how many were cut; the result has at most *max_chars*
    characters. Cleaning twice changes nothing.
    """
    if not isinstance(text, str):
        return ""
    if _UNSTORABLE.search(text):
        text = _LINE_END.sub("\n", _CONTROLS.sub("", text))
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if len(text) <= max_chars:
        return text
    return _cut(text, max_chars)


def _cut(text: str, max_chars: int) -> str:
    kept, mark = max_chars, ""
    # The mark's length depends on the number in it; a third round settles that.
    for _ in range(3):
        mark = f"… [cut {len(text) - kept} characters]"
        kept = max(0, max_chars - len(mark))
    return (text[:kept] + mark)[:max_chars]


def flatten(content: object) -> str:
    """Return a message's `content` as one text.

    The same text that the host makes of it for `sync_turn`, so that a turn told both
    ways is one turn: text parts joined by newlines, and a note of how many images
    there were. What is neither text nor a list of parts has no text.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    texts: list[str] = []
    images = 0
    for part in cast("list[object]", content):
        kind, text = _part(part)
        images += kind in ("image_url", "input_image")
        if text and kind in ("text", "input_text", "output_text"):
            texts.append(text)
    said = "\n".join(texts).strip()
    if not images:
        return said
    note = f"[{images} image{'s' if images != 1 else ''}]"
    return f"{note} {said}" if said else note


def _part(part: object) -> tuple[str, str]:
    """Return one part's type and text, "" where it has none."""
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, Mapping):
        return "", ""
    fields = cast("Mapping[str, Any]", part)
    text = fields.get("text")
    kind = str(fields.get("type") or "").strip().lower()
    return kind, text if isinstance(text, str) else ""


_INTERRUPTED: Final = re.compile(
    r"""
    Operation\ interrupted
      (?: \.
        | :\ waiting\ for\ model\ response\ \([\d.]+s\ elapsed\)\.
        | \ during\ retry\ \(.*\)\.
        | :\ handling\ API\ error\ \(.*\)\.
        | :\ retrying\ API\ call\ after\ error\ \(.*\)\.
      )
    | \[(?:command\ )?interrupted\]
    | ⚠️\ Your\ message\ was(?:n't|\ interrupted\ before)\ process.*
    | ⚠️\ Processing\ (?:stopped:|completed\ but\ no\ response\ was\ generated).*
    | \[System\ note:\ The\ previous\ turn\ was\ interrupted\ by\ [^\n]*\]
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""Whole messages that the host puts where an answer should be."""
_INTERRUPTED_STARTS: Final = frozenset("Oo[⚠")

_WORD: Final = re.compile(r"[\w'\u0900-\u0dff]+")
"""Letters of Indian scripts hang together by marks that are no word characters."""
_MAX_ACKNOWLEDGEMENT_CHARS: Final = 120
_ACKNOWLEDGEMENTS: Final = frozenset(
    """
    a absolutely agreed all alright amazing and approved awesome bye cheers clear
    confirmed continue cool correct do done exactly excellent fine for go good got
    great hello hey hi it k kk keep lgtm lol looks much nice no nope now ok okay okey
    on noted perfect please proceed right sounds so super sure thank thanks that
    that's then thx to true ty understood very well wonderful works wow yea yeah yep
    yes you yup go-ahead ahead

    alles aber bitte danke dir einverstanden genau gern gerne gut hallo ja jawohl klar
    machen mach mal nein okidoki passt prima schön sehr stimmt super toll verstanden
    viel vielen weiter weitermachen

    accord allez bien bon bonjour c'est compris continuez d'accord exactement merci
    non oui ouais parfait beaucoup salut s'il te plaît vas-y va très vous y

    adelante bien bueno claro continúa continua correcto de acuerdo entendido exacto
    favor genial gracias hola listo muchas perfecto por sí si sigue vale muy

    beleza certo claro continue entendi isso obrigada obrigado olá perfeito pode sim
    não tudo bem tá muito

    bene capito certo ciao continua d'accordo esatto grazie mille perfetto prego sì va
    molto

    bedankt dank doorgaan ga goed ja je nee oké prima verder dankjewel dankuwel

    dobrze dobra dzięki dziękuję jasne kontynuuj nie tak super zgoda
    ano děkuju děkuji díky dobře pokračuj jasně
    bra fortsätt ja tack takk tak fortsæt fortsett kiitos joo jatka hyvä kyllä
    tamam teşekkürler teşekkür ederim evet devam et hay\u0131r hayir sağol

    да нет спасибо хорошо понял поняла понятно продолжай давай ок окей большое ясно
    так добре дякую зрозуміло продовжуй
    شكرا نعم لا حسنا تمام استمر
    धन्यवाद हाँ ठीक है जारी रखें
    """.split()  # noqa: SIM905
) | {
    *(
        "はい",
        "うん",
        "いいえ",
        "了解",
        "了解です",
        "承知しました",
        "わかりました",
        "続けて",
    ),
    *(
        "続けてください",
        "ありがとう",
        "ありがとうございます",
        "お願いします",
        "オーケー",
    ),
    *(
        "好",
        "好的",
        "好吧",
        "是",
        "是的",
        "对",
        "對",
        "嗯",
        "谢谢",
        "謝謝",
        "继续",
        "繼續",
    ),
    *("请继续", "明白", "明白了", "知道了", "收到", "可以", "不", "没问题", "沒問題"),
    *("네", "예", "응", "아니요", "알겠습니다", "감사합니다", "고마워", "고맙습니다"),
    *("계속", "계속해", "계속해주세요", "좋아요", "좋아", "확인"),
}
"""Words that, alone or together, acknowledge and say nothing."""


def is_noise(text: str, *, min_chars: int) -> bool:
    """Tell whether a turn is not worth remembering.

    Noise is shorter than *min_chars* after stripping, holds no letter or digit,
    consists of acknowledgements ("ok", "Thanks, please continue!"), or is one of the
    host's own interruption marks in place of an answer.
    """
    said = text.strip()
    if len(said) < min_chars or not said:
        return True
    if said[0] in _INTERRUPTED_STARTS and _INTERRUPTED.fullmatch(said):
        return True
    if len(said) > _MAX_ACKNOWLEDGEMENT_CHARS:
        return not any(map(str.isalnum, said))
    # One by one: nearly always the first word tells.
    for word in _WORD.finditer(said.casefold().replace("\u2019", "'")):
        if word[0].strip("'") not in _ACKNOWLEDGEMENTS:
            return False
    return True


_DELIMITER: Final = re.compile(rb"\n(?:\xc2)?\xa7\n")
"""A line with only §, as UTF-8 or, never valid as such, as Latin-1."""


def split_entries(raw: bytes) -> tuple[list[str], int]:
    """Split a MEMORY.md or USER.md the way the host does.

    Entries are stripped; empty ones and repetitions go. Where the host would give up
    on the whole file, only the entries that are not UTF-8 are left out.

    Returns:
        The entries in the file's order, and how many could not be decoded.
    """
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    entries: dict[str, None] = {}
    undecodable = 0
    for part in _DELIMITER.split(raw):
        try:
            entry = part.decode("utf-8").strip()
        except UnicodeDecodeError:
            undecodable += 1
            continue
        if entry:
            entries[entry] = None
    return list(entries), undecodable


_GAP: Final = r"\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_FENCE: Final = re.compile(
    rf"[<\uff1c\ufe64](?=[/{_GAP}]*(?:recalled[-_{_GAP}]*)?"
    rf"memory[-_\u2010-\u2015{_GAP}]*context)"
    rf"|\[(?=[{_GAP}]*system[{_GAP}]+note[{_GAP}]*:)",
    re.IGNORECASE,
)


def defuse_fences(text: str) -> str:
    """Return *text* with nothing in it that opens or closes the host's memory block.

    The first character of a fence tag or a `[System note:` becomes a look-alike, and
    all else stays, so that the text remains readable, no cutting can join two halves
    into a new tag, and the host's own sanitiser finds nothing left to cut.
    """
    return _FENCE.sub(lambda match: "\u2045" if match[0] == "[" else "\u2039", text)


def clip(text: str, n: int) -> str:
    """Return *text* in at most *n* characters for showing; a cut ends with "…".

    The cut is between words where one ends in the last quarter.
    """
    if len(text) <= n:
        return text
    if n < 1:
        return ""
    kept = text[: n - 1]
    if not text[n - 1].isspace():
        words = kept.rsplit(maxsplit=1)
        if len(words) == 2 and len(words[0]) >= n * 3 // 4:
            kept = words[0]
    return kept.rstrip() + "…"
