"""Every exception this package raises.

PgMemoryError
├── ConfigError            the operator must edit config.yaml
├── SchemaError            the operator must run `hermes-pgvector migrate`
├── Unavailable            retry later; nothing is wrong with the data
│   ├── DatabaseUnavailable
│   │   └── DatabaseBusy
│   ├── EmbedderUnavailable
│   └── JournalUnavailable
└── Rejected               retrying the same input cannot help
    ├── DimensionMismatch
    ├── ModelMismatch
    ├── UnembeddableText
    ├── UnstorableWrite
    └── BadRequest

The last two branches are the whole retry policy: the writer keeps what meets
`Unavailable` and tries again; it dead-letters what is `Rejected`. `ConfigError`
and `SchemaError` wait for an operator and lose nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping


class PgMemoryError(Exception):
    """Base of everything raised on purpose by this package."""


class ConfigError(PgMemoryError):
    """Settings that cannot be used; `problems` maps each key to what is wrong."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        """Keep *problems* and phrase them one per line."""
        self.problems = dict(problems)
        super().__init__("; ".join(f"{key}: {why}" for key, why in problems.items()))


class SchemaError(PgMemoryError):
    """The database's schema is missing, older, newer, or edited."""


class Unavailable(PgMemoryError):
    """A service does not answer now; the same call may succeed later."""


class DatabaseUnavailable(Unavailable):
    """PostgreSQL cannot be reached or did not finish in time."""


class DatabaseBusy(DatabaseUnavailable):
    """PostgreSQL is there; it did not get round to this one call in time."""


class EmbedderUnavailable(Unavailable):
    """The embedding endpoint cannot be reached or did not finish in time."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """Keep the pause the endpoint asked for, in seconds, if it named one."""
        self.retry_after_s = retry_after_s
        super().__init__(message)


class JournalUnavailable(Unavailable):
    """The journal on local disk does not take the write."""


class Rejected(PgMemoryError):
    """This input will never be accepted; retrying cannot help."""


class DimensionMismatch(Rejected):
    """The model returns vectors of another length than the database holds."""

    def __init__(self, *, expected: int, got: int) -> None:
        """Record both lengths so that callers need not parse the message."""
        self.expected = expected
        self.got = got
        super().__init__(
            f"the model returned {got} dimensions, the database holds {expected}: "
            "set plugins.pgvector.embed_model back"
        )


class ModelMismatch(Rejected):
    """The configured model is not the one the database's vectors came from."""

    def __init__(self, *, database: str, configured: str) -> None:
        """Record both models by name."""
        self.database = database
        self.configured = configured
        super().__init__(
            f"the database's vectors come from {database}, the configuration says "
            f"{configured}: set plugins.pgvector.embed_model to {database}, or move "
            "the database over with `hermes-pgvector reembed`; until then rows go "
            "without vectors, and recall uses words only"
        )


class UnembeddableText(Rejected):
    """The endpoint refuses this text, whatever we do."""


class UnstorableWrite(Rejected):
    """The database refuses this one write, whatever we do."""


class BadRequest(Rejected):
    """A tool or command argument is of the wrong type or out of range."""
