"""Settings to an Embedder, without I/O."""

from __future__ import annotations

import httpx

from hermes_pgmemory.config import SECTION, Settings
from hermes_pgmemory.embed import Embedder
from hermes_pgmemory.embed.embedder import EndpointEmbedder
from hermes_pgmemory.embed.local import LOCAL_BATCH, LocalEndpoint
from hermes_pgmemory.embed.remote import RemoteEndpoint
from hermes_pgmemory.embed.urls import parse_url
from hermes_pgmemory.embedding_models import (
    DEFAULT_ENDPOINT_MODEL,
    HUB_PREFIX,
    LOCAL_MODEL,
    hub_name,
    profile_for,
)
from hermes_pgmemory.errors import ConfigError


def make_embedder(
    settings: Settings, *, transport: httpx.BaseTransport | None = None
) -> Embedder:
    """Build the embedder that the settings ask for.

    Args:
        settings: Without `embed_url`, this host's own model serves.
        transport: For tests; replaces the network.

    Raises:
        ConfigError: `embed_url` cannot be used, or the local model is asked to be
            another one.
    """
    if not settings.embed_url.strip():
        return _local(settings)
    address = parse_url(settings.embed_url, settings.embed_protocol)
    name = settings.embed_model.strip() or DEFAULT_ENDPOINT_MODEL
    endpoint = RemoteEndpoint(
        address,
        model=name,
        key_variable=settings.embed_api_key_env.strip(),
        transport=transport,
    )
    profile = profile_for(
        name,
        query_prefix=settings.embed_query_prefix,
        document_prefix=settings.embed_document_prefix,
    )
    return EndpointEmbedder(endpoint, name=name, profile=profile, largest=512)


def _from_hub(configured: str, settings: Settings) -> Embedder:
    name = hub_name(configured)
    profile = profile_for(
        name,
        query_prefix=settings.embed_query_prefix,
        document_prefix=settings.embed_document_prefix,
    )
    return EndpointEmbedder(
        LocalEndpoint(hub_model=configured),
        name=name,
        profile=profile,
        largest=LOCAL_BATCH,
    )


def _local(settings: Settings) -> Embedder:
    if (configured := settings.embed_model.strip()).startswith(HUB_PREFIX):
        return _from_hub(configured, settings)
    problems: dict[str, str] = {}
    profile = profile_for(LOCAL_MODEL)
    if settings.embed_model.strip() not in {"", LOCAL_MODEL}:
        problems[f"{SECTION}.embed_model"] = (
            f"without {SECTION}.embed_url the local model {LOCAL_MODEL} serves; set "
            "the URL of the endpoint that has this model, or remove this key"
        )
    prefixes = (
        ("embed_query_prefix", settings.embed_query_prefix, profile.query_prefix),
        (
            "embed_document_prefix",
            settings.embed_document_prefix,
            profile.document_prefix,
        ),
    )
    for key, wanted, own in prefixes:
        if wanted not in {None, own}:
            problems[f"{SECTION}.{key}"] = (
                f"the local model always takes {own!r}; remove this key"
            )
    if problems:
        raise ConfigError(problems)
    return EndpointEmbedder(
        LocalEndpoint(), name=LOCAL_MODEL, profile=profile, largest=LOCAL_BATCH
    )
