"""Secrets that are known by their own form: the providers' keys and tokens.

Every pattern takes a whole run of its characters in one go and lets a check decide
afterwards, so that no input is scanned twice and time stays linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hermes_pgmemory.redact.values import is_mixed, mark

_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_BASE64_40: Final = re.compile(
    r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """One sort of token."""

    kind: str
    hints: tuple[str, ...]
    """Texts of which every such token holds one."""
    pattern: re.Pattern[str]
    """Its one group, if any, is the part to replace."""
    accept: Callable[[str], bool]


def _shape(
    kind: str, hints: str, pattern: str, accept: Callable[[str], bool]
) -> _Shape:
    return _Shape(kind, tuple(hints.split()), re.compile(pattern), accept)


def _any(_token: str) -> bool:
    return True


def _likely(token: str) -> bool:
    return is_mixed(token) or len(token) >= 30


def _random(token: str) -> bool:
    """Tell a key from joined words: some part of it is long, or mixed."""
    return any(
        len(run) >= 20 or (len(run) >= 10 and is_mixed(run))
        for run in _RUN.findall(token)
    )


def _both_cases(token: str) -> bool:
    return is_mixed(token) and token.lower() != token != token.upper()


_START: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"
_WITH_HYPHEN: Final = (
    _shape("anthropic key", "sk-ant-", _START + r"sk-ant-[A-Za-z0-9_-]{8,}", _any),
    _shape("openai key", "sk-", _START + r"sk-[A-Za-z0-9_-]{10,}", _random),
    _shape(
        "slack token",
        "xox xapp-",
        _START + r"(?:xox[abeprs](?:\.xox[a-z])?-|xapp-[0-9]-)[A-Za-z0-9-]{10,}",
        _likely,
    ),
    _shape(
        "gitlab token",
        "glpat- gldt- glrt- glptt- glsoat- glcbt- glft- glimt- glagent- gloas-",
        _START + r"gl(?:pat|dt|rt|ptt|soat|cbt|ft|imt|agent|oas)-"
        r"[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{2,})*",
        _likely,
    ),
    _shape("pypi token", "pypi-", _START + r"pypi-[A-Za-z0-9_-]{16,}", _random),
    _shape(
        "api key",
        "GOCSPX- tvly- pplx- xai- nvapi- PMAK- AGE-SECRET-KEY-1",
        _START + r"(?:GOCSPX|tvly|pplx|xai|nvapi|PMAK|AGE-SECRET-KEY)"
        r"-[A-Za-z0-9_-]{16,}",
        _random,
    ),
)
_WITH_UNDERSCORE: Final = (
    _shape(
        "github token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        _START + r"(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{10,}",
        _likely,
    ),
    _shape(
        "stripe key",
        "k_live_ k_test_",
        _START + r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}",
        _likely,
    ),
    _shape(
        "api key",
        "whsec_ gsk_ r8_ ntn_ shpat_ shpss_ shpca_ lin_api_ dckr_pat_ syt_ figd_ sgp_ "
        "pcsk_ sbp_ sb_secret_ glsa_ dop_v1_ doo_v1_ sk_",
        _START + r"(?:whsec|gsk|r8|ntn|shp(?:at|ss|ca)|lin_api|dckr_pat|syt|figd|sgp"
        r"|pcsk|sbp|sb_secret|glsa|do[op]_v1|sk)_[A-Za-z0-9_-]{20,}",
        _random,
    ),
    _shape("huggingface token", "hf_", _START + r"hf_[A-Za-z0-9]{10,}", _likely),
    _shape("npm token", "npm_", _START + r"npm_[A-Za-z0-9]{10,}", _likely),
)
_WITH_DOT: Final = (
    _shape("google token", "ya29.", _START + r"ya29\.[A-Za-z0-9_-]{30,}", _any),
    _shape(
        "sendgrid key",
        "SG.",
        _START + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        _any,
    ),
    _shape(
        "jwt",
        "eyJ",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{4,})+=*",
        _any,
    ),
    _shape(
        "discord token",
        "M N O",
        r"[MNO](?<![A-Za-z0-9].)[A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}"
        r"\.[A-Za-z0-9_-]{27,}",
        _likely,
    ),
)
_WITH_COLON: Final = (
    _shape(
        "telegram token",
        ":",
        r"(?:(?<![A-Za-z0-9])|(?<=bot))[0-9]{6,12}:[A-Za-z0-9_-]{33,40}(?![\w-])",
        _both_cases,
    ),
)
_WITH_SLASH: Final = (
    _shape(
        "webhook path",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{16,})",
        _any,
    ),
    _shape(
        "webhook token",
        "/api/webhooks/",
        r"/api/webhooks/[0-9]{5,25}/([A-Za-z0-9_-]{16,})",
        _any,
    ),
)
_PLAIN: Final = (
    _shape(
        "aws key id",
        "AKIA ASIA ABIA ACCA",
        _START + r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}" + _END,
        _any,
    ),
    _shape("google key", "AIza", _START + r"AIza[A-Za-z0-9_-]{30,}", _any),
    _shape(
        "twilio key",
        "SK AC",
        _START + r"(?:SK|AC)[0-9a-f]{32}(?::[0-9a-f]{32})?" + _END,
        _any,
    ),
)
_GATES: Final = (
    (re.compile(r"-[A-Za-z0-9_-]{8}"), _WITH_HYPHEN),
    (re.compile(r"_[A-Za-z0-9_-]{10}"), _WITH_UNDERSCORE),
    (re.compile(r"\.[A-Za-z0-9_-]{10}"), _WITH_DOT),
    (re.compile(r":[A-Za-z0-9_-]{33}"), _WITH_COLON),
    (re.compile(r"/[A-Za-z0-9_-]{10}"), _WITH_SLASH),
)
"""What every token of a group contains."""
_ANY_GATE: Final = re.compile(r"[-_./:][A-Za-z0-9_-]{8}")
"""What a text contains that passes any of the gates; ordinary ones do not."""


def redact_tokens(text: str) -> str:
    """Replace keys and tokens of the common providers."""
    if _ANY_GATE.search(text):
        for gate, shapes in _GATES:
            if gate.search(text):
                text = _redact_shapes(shapes, text)
    return _redact_shapes(_PLAIN, text)


def _redact_shapes(shapes: tuple[_Shape, ...], text: str) -> str:
    for shape in shapes:
        for hint in shape.hints:
            if hint in text:
                if shape.kind == "aws key id":
                    text = _BASE64_40.sub(_aws_secret, text)
                text = shape.pattern.sub(partial(_replace, shape), text)
                break
    return text


def _replace(shape: _Shape, found: re.Match[str]) -> str:
    if not shape.accept(found[0]):
        return found[0]
    start, end = found.span(found.lastindex or 0)
    before, after = start - found.start(), end - found.start()
    return found[0][:before] + mark(shape.kind) + found[0][after:]


def _aws_secret(found: re.Match[str]) -> str:
    # Beside a key id, forty characters that are no hex digest are its other half.
    return mark("aws secret key") if _both_cases(found[0]) else found[0]
