"""Every number we export, declared once. Names follow Prometheus conventions.

Counters end in `_total`, times are seconds, sizes are bytes. Labels are drawn
from closed sets written here; a theme or a session id is never a label. What an
agent's process counts lives in `REGISTRY` and reaches the exporter by `telemetry`;
what the exporter sees for itself when it is asked is an `OnLook`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.utils import (
    floatToGoString,  # pyright: ignore[reportUnknownVariableType]
)

REGISTRY: Final = CollectorRegistry()
"""Ours alone, so that loading the plugin twice in one host process is harmless."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One metric as the reference shows it."""

    name: str
    kind: str
    help: str
    label: str = ""
    values: Sequence[str] = ()
    """All that the label may be; the exporter shows each from the start."""
    bounds: Sequence[str] = ()
    """Upper bounds of a histogram's buckets, as the text format spells them."""


_declared: Final[list[Declared]] = []


def declared() -> Sequence[Declared]:
    """Return every metric, those of the agents' processes first."""
    return tuple(_declared)


def _counter(
    name: str, text: str, label: str = "", values: Sequence[str] = ()
) -> Counter:
    _declared.append(Declared(name, "counter", text, label, values))
    return Counter(name, text, [label] if label else [], registry=REGISTRY)


def _histogram(
    name: str,
    text: str,
    buckets: Sequence[float],
    label: str = "",
    values: Sequence[str] = (),
) -> Histogram:
    bounds = [floatToGoString(bound) for bound in (*buckets, "inf")]
    _declared.append(Declared(name, "histogram", text, label, values, bounds))
    labels = [label] if label else []
    return Histogram(name, text, labels, buckets=buckets, registry=REGISTRY)


class OnLook:
    """A number that is not counted but looked at, when the exporter is asked."""

    def __init__(
        self, name: str, text: str, label: str = "", values: Sequence[str] = ()
    ) -> None:
        """Declare it; *values* are all that *label* may be."""
        self.declared: Final = Declared(name, "gauge", text, label, values)
        _declared.append(self.declared)

    def seen(self, value: float | Mapping[str, float]) -> GaugeMetricFamily:
        """Return it with what was seen: one number, or one for each label value."""
        told = self.declared
        labels = [told.label] if told.label else []
        family = GaugeMetricFamily(told.name, told.help, labels=labels)
        if isinstance(value, Mapping):
            for one in told.values:
                family.add_metric([one], value.get(one, 0.0))
        else:
            family.add_metric([], value)
        return family


_HOOKS: Final = (
    "initialize",
    "initialize_for_inspection",
    "shutdown",
    "on_memory_write",
    "sync_turn",
    "on_session_end",
    "on_delegation",
    "on_session_switch",
    "system_prompt_block",
    "prefetch",
    "handle_tool_call",
    "_tell_host",
)
"""What passes `boundary.fail_soft`."""

# -- counted in the agents' processes ---------------------------------------------

WRITES: Final = _counter(
    "pgmemory_writes_total",
    "Writes by outcome; a stored write was accepted before, maybe by another process.",
    "outcome",
    ("accepted", "stored", "dead", "refused"),
)
WRITER_BATCH_SECONDS: Final = _histogram(
    "pgmemory_writer_batch_seconds",
    "Wall time of one batch of the writer, embedding and transaction.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
HOOK_FAILURES: Final = _counter(
    "pgmemory_hook_failures_total",
    "Host hooks that ended in an error, by hook.",
    "hook",
    _HOOKS,
)
HOOK_SECONDS: Final = _histogram(
    "pgmemory_hook_seconds",
    "Wall time for which a hook kept the host waiting, by hook.",
    (0.000025, 0.00005, 0.0001, 0.00025, 0.001, 0.005, 0.025, 0.1, 1, 8),
    "hook",
    _HOOKS,
)
EMBED_REQUESTS: Final = _counter(
    "pgmemory_embed_requests_total",
    "Requests to the embedding endpoint, by outcome.",
    "outcome",
    ("ok", "unavailable", "rejected"),
)
EMBED_TEXTS: Final = _counter(
    "pgmemory_embed_texts_total",
    "Texts that wanted a vector, by where it came from: the model, their twin in the "
    "same request, or a row of the database that knows it.",
    "source",
    ("model", "batch", "database"),
)
EMBED_SECONDS: Final = _histogram(
    "pgmemory_embed_request_seconds",
    "Wall time of one request to the embedding endpoint, failed ones included.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20),
)
STANDBY_SEARCHES: Final = _counter(
    "pgmemory_standby_searches_total",
    "Searches of the standby that dsn_read names, by outcome; "
    "the primary answers what was behind or failed.",
    "outcome",
    ("answered", "behind", "failed"),
)
RECALL_SECONDS: Final = _histogram(
    "pgmemory_recall_seconds",
    "Wall time of one recall, embedding and search.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 8),
    "path",
    ("prefetch", "tool"),
)
RECALL_DEGRADED: Final = _counter(
    "pgmemory_recall_degraded_total",
    "Recalls that went without something: without the database nothing is found, "
    "without the embedder, or with another model than the database's, only words.",
    "missing",
    ("database", "embedder", "model"),
)

# -- looked at by the exporter -----------------------------------------------------

PROCESSES: Final = OnLook(
    "pgmemory_processes", "Living processes that publish their numbers in this home."
)
BREAKERS_OPEN: Final = OnLook(
    "pgmemory_breakers_open",
    "Living processes whose last try of a service failed, by service.",
    "service",
    ("database", "embedder"),
)
JOURNAL_WRITES: Final = OnLook(
    "pgmemory_journal_writes", "Accepted writes not yet stored, of all processes."
)
JOURNAL_AGE: Final = OnLook(
    "pgmemory_journal_oldest_write_age_seconds",
    "Age of the oldest accepted write not yet stored; 0 without one.",
)
JOURNAL_BYTES: Final = OnLook(
    "pgmemory_journal_bytes", "Size of the journal on disk, dead letters included."
)
DEAD_LETTERS: Final = OnLook(
    "pgmemory_dead_letters", "Writes put aside because the database refuses them."
)
OUTAGE_START: Final = OnLook(
    "pgmemory_outage_start_timestamp_seconds",
    "Unix time since which writes wait for the database; 0 while none does.",
)
DATABASE_UP: Final = OnLook(
    "pgmemory_database_up",
    "1 if the database answers and its schema can be used, else 0; "
    "absent while an embedded server is stopped.",
)
THEMES: Final = OnLook("pgmemory_themes", "Themes in the database.")
ROWS: Final = OnLook(
    "pgmemory_rows",
    "Rows in the database; retired entries are in no memory file any more.",
    "kind",
    ("entries", "retired", "turns"),
)
ROWS_WITHOUT_VECTORS: Final = OnLook(
    "pgmemory_rows_without_vectors",
    "Rows in the database that wait for a vector and are found by words only.",
    "kind",
    ("entries", "turns"),
)
DATABASE_BYTES: Final = OnLook(
    "pgmemory_database_bytes", "Size of our tables, indexes included."
)


class LaterObserved:
    """Times that are noted on a hot path and observed when somebody looks.

    Noting is an append, a thirtieth of what observing takes.
    """

    _all: ClassVar[list[LaterObserved]] = []

    def __init__(self, histogram: Histogram) -> None:
        """Note for *histogram*, whose labels are set."""
        self._histogram = histogram
        # Where nobody ever looks, the oldest go.
        self._noted: deque[float] = deque(maxlen=65_536)
        self.note: Final = self._noted.append
        self._all.append(self)

    @classmethod
    def settle(cls) -> None:
        """Observe all that was noted so far."""
        for one in cls._all:
            one.observe()

    def observe(self) -> None:
        """Observe what was noted here."""
        with suppress(IndexError):  # at the end; another thread may observe, too
            while True:
                self._histogram.observe(self._noted.popleft())


def readings() -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield what this process has counted: sample name and label values, number.

    What is still zero is left out.
    """
    LaterObserved.settle()
    for family in REGISTRY.collect():
        for sample in family.samples:
            if sample.value and not sample.name.endswith("_created"):
                yield (sample.name, *sample.labels.values()), sample.value
