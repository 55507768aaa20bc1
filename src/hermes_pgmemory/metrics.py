"""Every number we export, declared once. Names follow Prometheus conventions.

Counters end in `_total`, times are seconds, sizes are bytes. Labels are drawn
from closed sets written here; a theme or a session id is never a label.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY: Final = CollectorRegistry()
"""Ours alone, so that loading the plugin twice in one host process is harmless."""

WRITES: Final = Counter(
    "pgmemory_writes_total",
    "Writes by outcome.",
    ["outcome"],  # accepted | stored | dead | refused
    registry=REGISTRY,
)
HOOK_FAILURES: Final = Counter(
    "pgmemory_hook_failures_total",
    "Host hooks that ended in an error, by hook.",
    ["hook"],  # the method names of the provider
    registry=REGISTRY,
)
EMBED_REQUESTS: Final = Counter(
    "pgmemory_embed_requests_total",
    "Requests to the embedding endpoint, by outcome.",
    ["outcome"],  # ok | unavailable | rejected
    registry=REGISTRY,
)
EMBED_TEXTS: Final = Counter(
    "pgmemory_embed_texts_total",
    "Texts that wanted a vector, by where it came from; all but model are saved.",
    ["source"],  # model | batch (its twin in one request) | database (a known text)
    registry=REGISTRY,
)
JOURNAL_WRITES: Final = Gauge(
    "pgmemory_journal_writes", "Accepted writes not yet stored.", registry=REGISTRY
)
STANDBY_SEARCHES: Final = Counter(
    "pgmemory_standby_searches_total",
    "Searches of the standby that dsn_read names, by outcome.",
    ["outcome"],  # answered | behind | failed; the primary answers the last two
    registry=REGISTRY,
)
RECALL_SECONDS: Final = Histogram(
    "pgmemory_recall_seconds",
    "Wall time of one recall, embedding and search.",
    ["path"],  # prefetch | tool
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 8),
    registry=REGISTRY,
)
