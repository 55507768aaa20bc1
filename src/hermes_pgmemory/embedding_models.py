"""What is known of embedding models by name: their prefixes and their scale.

Most models want a query to be told apart from a document, and each has its own
words for it; the ones below are those of the model cards. Nothing here asks
anyone: an unknown model gets no prefix and a plain cosine scale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from hermes_pgmemory.ranking import COSINE, Scale

LOCAL_MODEL: Final = "multilingual-e5-small-q4"
"""The model that serves when no endpoint is configured."""

HUB_PREFIX: Final = "fastembed:"
"""Before the name of a model of a hub that this host is to run itself."""

DEFAULT_ENDPOINT_MODEL: Final = "nomic-embed-text"
"""What an endpoint is asked for when no model is configured."""

_ASYMMETRIC: Final = "Represent this sentence for searching relevant passages: "
_TASK: Final = (
    "Given a web search query, retrieve relevant passages that answer the query"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """How to talk to one model and how to read its similarities."""

    query_prefix: str = ""
    document_prefix: str = ""
    scale: Scale = COSINE
    """How to read its similarities."""


PLAIN: Final = ModelProfile()
"""No prefix, similarities as they are."""

_E5: Final = ModelProfile(
    query_prefix="query: ",
    document_prefix="passage: ",
    scale=Scale(floor=0.75, ceiling=0.90),
)

# First match wins, so the special cases of a family stand before the family. The
# name may carry an owner, a tag and a file format: "org/Name-v1.5-GGUF:Q4_K_M".
_FAMILIES: Final[tuple[tuple[re.Pattern[str], ModelProfile], ...]] = tuple(
    (re.compile(pattern), profile)
    for pattern, profile in (
        (
            r"\be5-.*instruct|\be5-mistral",
            ModelProfile(query_prefix=f"Instruct: {_TASK}\nQuery: "),
        ),
        (r"\be5\b", _E5),
        (
            r"\bnomic-embed-text",
            ModelProfile(
                query_prefix="search_query: ", document_prefix="search_document: "
            ),
        ),
        (r"\bmxbai-embed-large", ModelProfile(query_prefix=_ASYMMETRIC)),
        (
            r"\b(snowflake-)?arctic-embed2|\barctic-embed-.*v2",
            ModelProfile(query_prefix="query: "),
        ),
        (r"\barctic-embed", ModelProfile(query_prefix=_ASYMMETRIC)),
        (
            r"\bbge-(small|base|large)-zh",
            ModelProfile(query_prefix="为这个句子生成表示以用于检索相关文章："),  # noqa: RUF001
        ),
        (r"\bbge-(small|base|large)\b", ModelProfile(query_prefix=_ASYMMETRIC)),
        (
            r"\bembeddinggemma",
            ModelProfile(
                query_prefix="task: search result | query: ",
                document_prefix="title: none | text: ",
            ),
        ),
        (
            r"\bqwen3-embedding",
            ModelProfile(query_prefix=f"Instruct: {_TASK}\nQuery:"),
        ),
    )
)


def profile_for(
    model: str, *, query_prefix: str | None = None, document_prefix: str | None = None
) -> ModelProfile:
    """Return the profile of *model*; a prefix that is given replaces the model's own.

    Args:
        model: The name as configured, in any case, with or without owner and tag.
        query_prefix: Text put before a query; "" means none, None the model's own.
        document_prefix: The same for a document.
    """
    name = model.lower().rsplit("/", 1)[-1].replace("_", "-")
    known = (profile for pattern, profile in _FAMILIES if pattern.search(name))
    profile = next(known, PLAIN)
    if query_prefix is not None:
        profile = replace(profile, query_prefix=query_prefix)
    if document_prefix is not None:
        profile = replace(profile, document_prefix=document_prefix)
    return profile


def hub_name(configured: str) -> str:
    """Return the name that a database knows a model of a hub by: without a folder.

    Args:
        configured: `fastembed:NAME`, or `fastembed:NAME@FOLDER` with its files.
    """
    return configured.partition("@")[0]
