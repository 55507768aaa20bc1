"""Every setting, declared once: type, range, default, help.

Parsing, the host's setup screens, the door's `config_schema.py`, the README's
table and the error messages all derive from `Settings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from hermes_pgmemory.errors import ConfigError

SECTION: Final = "plugins.pgvector"
"""Where the settings live in config.yaml."""

UNUSABLE_DSN: Final = "?"
"""Stands for a connection string that is no string; no driver can parse it."""

ENVIRONMENT: Final = {"dsn": "PGMEMORY_DSN", "dsn_read": "PGMEMORY_DSN_READ"}
"""Environment variable that gives a secret setting where no file does."""


def _split_list(value: object) -> object:
    """Accept "a, b" for a list: the host's setup screens write strings."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    many = isinstance(value, list | tuple)
    items = cast("Sequence[object]", value) if many else (value,)
    return tuple(_as_text(item) for item in items)


def _empty_map(value: object) -> object:
    if not isinstance(value, dict):
        return {} if value is None or value == "" else value
    pairs = cast("dict[object, object]", value).items()
    return {_as_text(key): _as_text(item) for key, item in pairs}


def _as_text(value: object) -> object:
    """Spell a number as it was: YAML takes a theme called 2026 for one."""
    return str(value) if type(value) in (int, float) else value


@dataclass(frozen=True, slots=True)
class WhenWrong:
    """What is in effect for a setting whose value makes no sense.

    For settings that hold something back: their default would let it go.
    """

    value: Any
    told: str
    """The same for people."""


Names = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
Percent = Annotated[float, Field(ge=0.0, le=1.0)]


class Settings(BaseModel):
    """Everything under `plugins.pgvector` in config.yaml."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    # Its default is another database, which nobody asked for.
    dsn: Annotated[SecretStr, WhenWrong(UNUSABLE_DSN, "nothing is stored")] = SecretStr(
        ""
    )
    """PostgreSQL connection string; empty starts an embedded server in HERMES_HOME."""

    dsn_read: SecretStr = SecretStr("")
    """Connection string of a standby that recall asks first; empty asks the primary."""

    embed_url: str = ""
    """Embedding endpoint, OpenAI-compatible or Ollama; empty uses a local model."""

    embed_model: str = ""
    """Model to ask for, nomic-embed-text if empty; `fastembed:NAME` runs one here."""

    embed_protocol: Literal["auto", "openai", "ollama"] = "auto"
    """Dialect of the endpoint."""

    embed_api_key_env: str = ""
    """Name of the environment variable that holds the endpoint's bearer key."""

    embed_query_prefix: str | None = None
    """Text put before a query; unset takes the model's own."""

    embed_document_prefix: str | None = None
    """Text put before a stored text; unset takes the model's own."""

    embed_on_write: bool = True
    """Embed while writing; off leaves it to `hermes-pgvector backfill`."""

    embed_write_retries: Annotated[int, Field(ge=0, le=20)] = 2
    """Extra attempts of the writer to embed a batch before storing text only."""

    embed_write_backoff: Annotated[float, Field(ge=0.0, le=60.0)] = 0.1
    """Seconds before the first of those attempts; doubles each time."""

    prefetch_limit: Annotated[int, Field(ge=0, le=50)] = 5
    """Memory entries injected per turn; 0 turns ambient recall off."""

    prefetch_budget_s: Annotated[float, Field(ge=0.1, le=7.5)] = 4.0
    """Seconds an ambient recall may take; the host gives up at 8."""

    min_similarity: Percent = 0.30
    """Least relevance of an injected entry: 0 is unrelated, 1 an outright answer."""

    decay_half_life_days: Annotated[float, Field(ge=0.0, le=36_500.0)] = 0.0
    """Days after which a memory ranks half as high as a new one; 0 is never."""

    scope_default: str = "current"
    """Scope of a recall tool called without one: current, all, or a theme."""

    write_queue_maxsize: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Kept for compatibility: writes stored in one batch. More than 64 means 64."""

    journal_quota_mb: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    """Megabytes the journal may take during an outage; then writes are refused."""

    bulk_sync_on_init: Annotated[
        bool, WhenWrong(value=False, told="they are not followed")
    ] = True
    """Follow MEMORY.md and USER.md: import what is new, retire what is gone."""

    sync_turns: Annotated[bool, WhenWrong(value=False, told="no turn is kept")] = True
    """Keep conversation turns."""

    turn_min_chars: Annotated[int, Field(ge=0, le=100_000)] = 40
    """Shorter turns are not kept."""

    conversation_embed_policy: Annotated[
        Literal["all", "substantive_only", "none"],
        WhenWrong("none", "no turn is embedded"),
    ] = "all"
    """Which kept turns are embedded; the others are found by their words."""

    write_contexts: Annotated[Names, WhenWrong((), "no agent writes")] = (
        "primary",
        "cron",
    )
    """Agent contexts that may write; the others only recall."""

    allowed_themes: Annotated[
        Names, WhenWrong(("default",), "every theme becomes default")
    ] = ()
    """Themes that may exist; a stranger becomes `default`. Empty allows all."""

    identity_aliases: Annotated[dict[str, str], BeforeValidator(_empty_map)] = {}
    """Identities renamed before anything else looks at them."""

    bench_mode: Literal["bucket", "reject"] = "bucket"
    """Benchmark identities go to `_bench`, or to `default`."""

    cross_theme_recall: bool = False
    """Let direct-message and group buckets recall from other themes."""

    ttl_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    """Days after which `prune` deletes turns, unless told otherwise; 0 is never."""

    history_days: Annotated[int, Field(ge=0, le=36_500)] = 365
    """Days for which `prune` keeps what entries said before; 0 is for ever."""

    # For many languages, too: against `simple` it finds more in English and French, by
    # their plurals, and no less in German.
    text_search_config: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")] = "english"
    """PostgreSQL text search configuration; set once, by the first `migrate`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Settings fit for use, and what was wrong with the rest."""

    settings: Settings
    problems: Mapping[str, str]
    """Full key to complaint; the settings hold defaults for these keys, or what is
    safe."""

    def checked(self) -> Settings:
        """Return the settings, or raise if anything was wrong.

        Raises:
            ConfigError: Names every problem at once.
        """
        if self.problems:
            raise ConfigError(self.problems)
        return self.settings


def parse(raw: Mapping[str, Any]) -> Parsed:
    """Build settings from the section *raw*; bad keys fall back to defaults.

    Where a default would do what the operator may have wanted to prevent (`WhenWrong`),
    they fall back to what is safe, a misspelled key included.

    Never raises: an agent must run. Every unknown, mistyped or out-of-range key is
    in `problems`, so that the caller can name them all at once.
    """
    # An empty YAML value (`dsn:`) means "not set".
    usable = {
        key: value
        for key, value in raw.items()
        if key in Settings.model_fields and value is not None
    }
    problems: dict[str, str] = {}
    for key in raw:
        if key not in Settings.model_fields:
            problems[f"{SECTION}.{key}"] = _unknown(str(key), usable)
    try:
        return Parsed(Settings.model_validate(usable), problems)
    except ValidationError as exc:
        for error in exc.errors(include_input=False, include_url=False):
            key = str(error["loc"][0])
            usable.pop(key, None)
            effect = _fall_back(key, usable) or "using the default"
            problems[f"{SECTION}.{key}"] = f"{error['msg']}; {effect}"
    return Parsed(Settings.model_validate(usable), problems)


def _unknown(key: str, usable: dict[str, Any]) -> str:
    near = get_close_matches(key, Settings.model_fields, n=1)
    if not near:
        return "unknown setting"
    effect = "" if near[0] in usable else _fall_back(near[0], usable)
    return f"unknown setting; did you mean {near[0]!r}?{effect and f' Now {effect}'}"


def _fall_back(key: str, usable: dict[str, Any]) -> str:
    """Put what is safe in the place of *key*, where its default is not; tell that."""
    for marker in Settings.model_fields[key].metadata:
        if isinstance(marker, WhenWrong):
            usable[key] = marker.value
            return marker.told
    return ""
