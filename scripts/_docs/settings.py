"""The settings, from their declaration in `config.Settings`."""

from __future__ import annotations

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from _docs.words import code, required, table
from hermes_pgmemory.config import Settings
from hermes_pgmemory.settings_docs import FieldDoc, field_docs


def settings() -> str:
    """Return a table of every setting: what it takes, its default, what it does."""
    rows = [
        (
            f"`{doc.key}`",
            _takes(doc, Settings.model_fields[doc.key]),
            code(doc.default),
            required(doc.help, f"the setting {doc.key}"),
        )
        for doc in field_docs()
    ]
    return table(("Setting", "Takes", "Default", "What it does"), rows)


def _takes(doc: FieldDoc, field: FieldInfo) -> str:
    if doc.choices:
        return ", ".join(map(code, doc.choices))
    if doc.kind == "bool":
        return "`true`, `false`"
    if doc.kind == "number":
        kind = "a whole number" if field.annotation is int else "a number"
        return f"{kind}, {_range(field)}"
    if isinstance(field.default, dict):
        return "a map of names"
    return "a list of names" if isinstance(field.default, tuple) else "text"


def _range(field: FieldInfo) -> str:
    least = next(str(mark.ge) for mark in field.metadata if isinstance(mark, Ge))
    most = next(str(mark.le) for mark in field.metadata if isinstance(mark, Le))
    return f"{least} to {most}"
