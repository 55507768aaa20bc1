"""The settings as documentation and setup screens show them; see `config.Settings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from hermes_pgmemory.config import Settings


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """One setting as documentation and setup screens need it."""

    key: str
    help: str
    default: str
    kind: Literal["text", "secret", "bool", "number", "choice"]
    choices: tuple[str, ...] = ()


def field_docs() -> list[FieldDoc]:
    """Describe every setting in the order of its declaration."""
    return [_describe(key, info) for key, info in Settings.model_fields.items()]


def _describe(key: str, info: FieldInfo) -> FieldDoc:
    annotation = info.annotation
    choices: tuple[str, ...] = ()
    kind: Literal["text", "secret", "bool", "number", "choice"] = "text"
    if annotation is SecretStr:
        kind = "secret"
    elif annotation is bool:
        kind = "bool"
    elif annotation in (int, float):
        kind = "number"
    elif get_origin(annotation) is Literal:
        kind = "choice"
        choices = tuple(str(choice) for choice in get_args(annotation))
    return FieldDoc(
        key=key,
        help=info.description or "",
        default=_spell(info.default),
        kind=kind,
        choices=choices,
    )


def _spell(default: object) -> str:
    """Write a default the way an operator would type it."""
    if isinstance(default, SecretStr) or default is None or default == {}:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(str(part) for part in default)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(default)


def host_schema() -> list[dict[str, Any]]:
    """Describe the settings the way the host's `get_config_schema` must.

    Nothing is flagged secret: the host would move a secret to .env under a name of
    its own, and the connection string would no longer reach us.
    """
    schema: list[dict[str, Any]] = []
    for doc in field_docs():
        field: dict[str, Any] = {
            "key": doc.key,
            "description": doc.help,
            "default": doc.default,
        }
        if doc.choices:
            field["choices"] = list(doc.choices)
        if doc.kind == "bool":
            field["type"] = "bool"
            field["choices"] = ["true", "false"]
        schema.append(field)
    return schema
