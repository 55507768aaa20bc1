"""All numbers of one home, for Prometheus: what its processes counted, and a look.

The journal is looked at with every scrape, the database at most every 15 seconds,
and never for more than a twentieth of the time: counting rows takes a while where
there are many.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from hermes_pgmemory import journal, metrics, settings_file, telemetry
from hermes_pgmemory.config import parse
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.errors import ConfigError, PgMemoryError, Unavailable
from hermes_pgmemory.metrics import Declared
from hermes_pgmemory.models import ThemeCount
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.store import Store

ANSWER_S: Final = 2.0
"""Seconds the database may take to answer at all."""
COUNT_S: Final = 5.0
"""Seconds it may take to count; Prometheus waits for 10 in all."""
KEPT_S: Final = 15.0
"""Seconds for which an answer of the database is told again."""
KEPT_FACTOR: Final = 20.0
"""The same, as a multiple of the time that it took."""

log = logging.getLogger("hermes_pgmemory")


@dataclass(frozen=True, slots=True)
class Database:
    """What the database had to say."""

    up: bool | None
    """None for an embedded server that is stopped: it starts on demand."""
    themes: list[ThemeCount] | None = None
    """None where they could not be counted in time."""
    bytes: int | None = None


class Exporter(Collector):
    """Collects everything about one home. Thread-safe."""

    def __init__(self, home: Path) -> None:
        """Look at nothing yet."""
        self._paths = HomePaths(home)
        self._mutex = threading.Lock()
        self._database = Database(None)
        self._next_look = float("-inf")

    def describe(self) -> Iterator[Metric]:
        """Say nothing: a registry would otherwise collect once to learn the names."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric there is; whatever is down is a number, not an error."""
        gathered = self._gathered()
        for told in metrics.declared():
            if told.kind == "counter":
                yield _counter(told, gathered.counted)
            elif told.kind == "histogram":
                yield _histogram(told, gathered.counted)
        yield metrics.PROCESSES.seen(len(gathered.living))
        names = [name for one in gathered.living for name in one.trouble]
        yield metrics.BREAKERS_OPEN.seen({name: names.count(name) for name in names})
        yield from self._journal()
        with self._mutex:
            if time.monotonic() >= self._next_look:
                self._look()
            database = self._database
        yield from _seen(database)

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry()).decode()

    def registry(self) -> CollectorRegistry:
        """Return a registry that holds this exporter and nothing else."""
        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def _gathered(self) -> telemetry.Gathered:
        try:
            return telemetry.gather(self._paths.metrics)
        except OSError as exc:
            raise Unavailable(f"{self._paths.metrics}: {exc.strerror}") from exc

    def _journal(self) -> Iterator[Metric]:
        status = journal.inspect(self._paths.journal)
        yield metrics.JOURNAL_WRITES.seen(status.pending)
        yield metrics.JOURNAL_AGE.seen(status.oldest_age_s or 0.0)
        yield metrics.JOURNAL_BYTES.seen(status.bytes)
        yield metrics.DEAD_LETTERS.seen(status.dead_letters)
        yield metrics.OUTAGE_START.seen(status.outage_since or 0.0)

    def _look(self) -> None:
        started = time.monotonic()
        try:
            self._database = self._asked()
        except PgMemoryError as exc:
            log.warning("the database cannot be looked at: %s", exc)
            self._database = Database(up=False)
        took_s = time.monotonic() - started
        self._next_look = time.monotonic() + max(KEPT_S, took_s * KEPT_FACTOR)

    def _asked(self) -> Database:
        section = settings_file.load_section(self._paths.config)
        dsn = parse(section).settings.dsn.get_secret_value()
        if not dsn:
            server = EmbeddedServer(self._paths.server)
            if not server.status().running:
                return Database(up=None)
            dsn = server.dsn
        with closing(Store(dsn, pool_size=1)) as store:
            store.verify(timeout_s=ANSWER_S, whole=False)
            try:
                sizes = store.maintenance.sizes(timeout_s=ANSWER_S)
                themes = store.counts(timeout_s=COUNT_S)
            except Unavailable as exc:
                log.warning("rows are not counted: %s", exc)
                return Database(up=True)
        bytes_ = sum(size.total for size in sizes)
        return Database(up=True, themes=themes, bytes=bytes_)


class Serving:
    """An exporter that answers on a port until it is closed."""

    def __init__(self, exporter: Exporter, *, host: str, port: int) -> None:
        """Answer from now on, on threads of our own; port 0 takes a free one.

        Raises:
            ConfigError: The port is taken, or not ours to take.
        """
        try:
            self._server, self._thread = start_http_server(
                port, addr=host, registry=exporter.registry()
            )
        except (OSError, OverflowError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "no such port"
            raise ConfigError({"--port": f"{port} of {host}: {why}"}) from exc
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop answering, and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _counter(told: Declared, counted: Mapping[telemetry.Key, float]) -> Metric:
    family = CounterMetricFamily(told.name, told.help, labels=_labels(told))
    for value in told.values or [""]:
        labels = [value] if told.label else []
        family.add_metric(labels, counted.get((told.name, *labels), 0.0))
    return family


def _histogram(told: Declared, counted: Mapping[telemetry.Key, float]) -> Metric:
    family = HistogramMetricFamily(told.name, told.help, labels=_labels(told))
    for value in told.values or [""]:
        labels = [value] if told.label else []
        buckets: list[tuple[str, float]] = []
        most = 0.0
        for bound in told.bounds:
            # An earlier version's process may have had other buckets.
            key = (f"{told.name}_bucket", *labels, bound)
            most = max(most, counted.get(key, 0.0))
            buckets.append((bound, most))
        seconds = counted.get((f"{told.name}_sum", *labels), 0.0)
        family.add_metric(labels, buckets, seconds)
    return family


def _labels(told: Declared) -> list[str]:
    return [told.label] if told.label else []


def _seen(database: Database) -> Iterator[Metric]:
    if database.up is not None:
        yield metrics.DATABASE_UP.seen(float(database.up))
    if database.bytes is not None:
        yield metrics.DATABASE_BYTES.seen(database.bytes)
    if (themes := database.themes) is not None:
        yield metrics.THEMES.seen(len(themes))
        yield metrics.ROWS.seen(
            {
                "entries": sum(one.entries for one in themes),
                "retired": sum(one.retired for one in themes),
                "turns": sum(one.turns for one in themes),
            }
        )
        yield metrics.ROWS_WITHOUT_VECTORS.seen(
            {
                "entries": sum(one.unembedded_entries for one in themes),
                "turns": sum(one.unembedded_turns for one in themes),
            }
        )
