"""Everything a user needs, once: door, database, model, schema, config.yaml.

Each step looks before it acts, so running the setup again repeats nothing and goes
on where it stopped. The host is pointed at us last, when the rest is known to work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import activation, door, settings_file
from hermes_pgmemory.config import Settings, parse
from hermes_pgmemory.embed import Embedder, make_embedder
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.embedding_models import profile_for
from hermes_pgmemory.errors import DimensionMismatch, ModelMismatch, PgMemoryError
from hermes_pgmemory.models import EmbeddingModel, Scope, Theme
from hermes_pgmemory.paths import PROVIDER, HomePaths
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store, migrate

PROBE_TIMEOUT_S: Final = 60.0
"""For one embedding: the first one may start and load the local model."""
CHECK_TIMEOUT_S: Final = 10.0
QUESTION: Final = "What do you remember?"


class Outcome(StrEnum):
    """How a step ended."""

    DONE = "done"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not tried, because an earlier step failed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the setup, told in one line."""

    name: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the setup did."""

    steps: tuple[Step, ...]
    error: PgMemoryError | None = None
    """Why the failed step failed; None where every step succeeded."""


def run(
    home: Path,
    *,
    changes: Mapping[str, Any] | None = None,
    force: bool = False,
    report: Callable[[Step], None] = lambda _: None,
) -> Report:
    """Set up *home*, reporting each step when it ends.

    Args:
        home: The HERMES_HOME; made if it does not exist.
        changes: Settings below `plugins.pgvector` to use and, once they are known
            to work, to write to config.yaml.
        force: Whether another plugin in our place is moved aside.
        report: Called with every step.

    Returns:
        The steps. A failed step leaves the earlier ones in place.
    """
    work = _Setup(HomePaths(home), dict(changes or {}), force=force)
    steps: list[Step] = []
    error: PgMemoryError | None = None
    for name, action in work.actions():
        if error is not None:
            step = Step(name, Outcome.SKIPPED, "not tried")
        else:
            try:
                step = Step(name, *action())
            except PgMemoryError as exc:
                error = exc
                step = Step(name, Outcome.FAILED, str(exc))
        steps.append(step)
        report(step)
    return Report(tuple(steps), error)


def run_for_people(home: Path) -> None:
    """Run the setup from the host's own setup command, telling each step."""
    sys.stdout.write("\n")
    outcome = run(home, report=_tell)
    if outcome.error is None:
        sys.stdout.write(
            "\n  Memory provider: pgvector. Start a new session to use it.\n"
            "  Your own PostgreSQL or model: hermes pgvector setup --help\n\n"
        )
    else:
        sys.stdout.write("\n  Change what is named above, and run this again.\n\n")


def _tell(step: Step) -> None:
    sys.stdout.write(f"  {line(step)}\n")
    sys.stdout.flush()


def line(step: Step) -> str:
    """Tell *step* in one line."""
    mark = {Outcome.FAILED: "✗", Outcome.SKIPPED: "·"}.get(step.outcome, "✓")
    return f"{mark} {step.name}: {' '.join(step.detail.split())}"


def probe_model(settings: Settings) -> EmbeddingModel:
    """Ask the configured model for its dimension.

    Raises:
        ConfigError: The settings name no usable model.
        EmbedderUnavailable: It does not answer usefully.
    """
    with closing(make_embedder(settings)) as embedder:
        return embedder.probe(timeout_s=PROBE_TIMEOUT_S)


def named_model(name: str, dimension: int, settings: Settings) -> EmbeddingModel:
    """Describe a model that is not asked: its prefixes are known by its name."""
    profile = profile_for(
        name,
        query_prefix=settings.embed_query_prefix,
        document_prefix=settings.embed_document_prefix,
    )
    return EmbeddingModel(
        name=name,
        dimension=dimension,
        query_prefix=profile.query_prefix,
        document_prefix=profile.document_prefix,
    )


Told = tuple[Outcome, str]


class _Setup:
    """The steps of one run, and what they learn for each other."""

    def __init__(
        self, paths: HomePaths, changes: dict[str, Any], *, force: bool
    ) -> None:
        self._paths = paths
        self._changes = changes
        self._force = force
        self._settings = Settings()
        self._dsn = ""
        self._model: EmbeddingModel | None = None

    def actions(self) -> Generator[tuple[str, Callable[[], Told]]]:
        """Yield the steps in their order."""
        yield "settings", self._read_settings
        yield "door", self._install_door
        yield "database", self._find_database
        yield "model", self._probe_model
        yield "schema", self._migrate
        yield "check", self._check
        yield "config", self._activate

    def _read_settings(self) -> Told:
        section = settings_file.load_section(self._paths.config)
        kept = activation.remembered_settings(self._paths)
        missing = {key: kept[key] for key in kept if key not in section}
        self._changes = missing | self._changes
        self._settings = parse({**section, **self._changes}).checked()
        return Outcome.UNCHANGED, f"{self._paths.config}"

    def _install_door(self) -> Told:
        written = door.install(self._paths.home, force=self._force)
        outcome = Outcome.DONE if written else Outcome.UNCHANGED
        return outcome, f"{self._paths.door}"

    def _find_database(self) -> Told:
        self._dsn = self._settings.dsn.get_secret_value()
        if self._dsn:
            return Outcome.UNCHANGED, "the PostgreSQL named by dsn"
        server = EmbeddedServer(self._paths.server)
        was_running = server.status().running
        server.ensure_running()
        self._dsn = server.dsn
        outcome = Outcome.UNCHANGED if was_running else Outcome.DONE
        return outcome, f"embedded PostgreSQL in {self._paths.server}"

    def _probe_model(self) -> Told:
        self._model = probe_model(self._settings)
        where = "" if self._settings.embed_url else ", on this host"
        detail = f"{self._model.name}, {self._model.dimension} dimensions{where}"
        return Outcome.UNCHANGED, detail

    def _migrate(self) -> Told:
        done = migrate.upgrade(
            self._dsn,
            self._model_known(),
            text_search_config=self._settings.text_search_config,
        )
        if not done.applied:
            return Outcome.UNCHANGED, "up to date"
        detail = f"applied {', '.join(done.applied)}"
        if done.adopted is not None:
            rows = done.adopted.entries.rows + done.adopted.turns.rows
            detail += f", took over {rows} rows of hermes-memory-pgvector"
        return Outcome.DONE, detail

    def _check(self) -> Told:
        """Ask the new memory a question, all the way; writes nothing."""
        with (
            closing(make_embedder(self._settings)) as embedder,
            closing(Store(self._dsn, pool_size=1)) as store,
        ):
            facts = store.verify(timeout_s=CHECK_TIMEOUT_S)
            _compare(facts.model, self._model_known())
            _ask(store, embedder)
        return Outcome.UNCHANGED, "a question was embedded, and searched for"

    def _activate(self) -> Told:
        written = activation.switch_on(self._paths, self._changes)
        outcome = Outcome.DONE if written else Outcome.UNCHANGED
        config = self._paths.config
        detail = f"memory.provider is {PROVIDER} in {config}"
        if settings_file.is_exposed(config, self._settings):
            detail += f"; everybody may read the password in it: chmod go= {config}"
        return outcome, detail

    def _model_known(self) -> EmbeddingModel:
        if self._model is None:
            raise AssertionError("the model is probed before it is needed")
        return self._model


def _compare(database: EmbeddingModel | None, configured: EmbeddingModel) -> None:
    """Refuse a database whose vectors another model made."""
    if database is None:
        return
    if database.name != configured.name:
        raise ModelMismatch(database=database.name, configured=configured.name)
    if database.dimension != configured.dimension:
        raise DimensionMismatch(expected=database.dimension, got=configured.dimension)


def _ask(store: Store, embedder: Embedder) -> None:
    vector = embedder.embed_query(QUESTION, timeout_s=PROBE_TIMEOUT_S)
    scope = Scope(theme=Theme("default"), subject=None)
    question = Question(text=QUESTION, vector=vector, scope=scope, limit=1)
    store.search_entries(question, timeout_s=CHECK_TIMEOUT_S)
