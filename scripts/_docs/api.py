"""Tools, the library and errors: what models and programs meet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from _docs.words import code, required, table
from hermes_pgmemory import Memory
from hermes_pgmemory import errors as vocabulary
from hermes_pgmemory.cli._result import status_of
from hermes_pgmemory.errors import PgMemoryError, Rejected, Unavailable
from hermes_pgmemory.tools import TOOL_SCHEMAS

LINE: Final = 88
"""Characters of a call that stays on one line."""


def tools() -> str:
    """Return each recall tool: what the model is told, and its arguments."""
    return "\n\n".join(
        f"## `{tool['name']}`\n\n{required(tool['description'], tool['name'])}\n\n"
        + table(
            ("Argument", "Takes", "Default", "What it is"),
            (
                _argument(name, schema, tool["parameters"]["required"])
                for name, schema in tool["parameters"]["properties"].items()
            ),
        )
        for tool in TOOL_SCHEMAS
    )


def _argument(
    name: str, schema: Mapping[str, Any], needed: list[str]
) -> tuple[str, str, str, str]:
    takes = ", ".join(map(code, schema.get("enum", ()))) or schema["type"]
    if "minimum" in schema:
        takes += f", {schema['minimum']} to {schema['maximum']}"
    default = code(str(schema.get("default", "")))
    if name in needed:
        default = "must be given"
    elif name == "scope":
        default = "the setting `scope_default`"
    told = required(schema.get("description"), f"the argument {name}")
    return f"`{name}`", takes, default, told


def library() -> str:
    """Return each public method of `Memory`, in the words of its docstring."""
    parts = [f"## `Memory`\n\n{_explained(Memory.__init__, 'Memory')}"]
    for name, one in vars(Memory).items():
        if name.startswith("_"):
            continue
        if isinstance(one, property):
            parts.append(f"## `{name}`\n\n{required(one.__doc__, name)}")
        else:
            parts.append(f"## `{name}`\n\n{_explained(one, name)}")
    return "\n\n".join(parts)


def _explained(function: Callable[..., object], name: str) -> str:
    required(function.__doc__, name)
    signature = inspect.signature(function)
    taken = list(signature.parameters.values())[1:]
    named = [p.kind is p.KEYWORD_ONLY for p in taken]
    lines = [
        f"{p.name}: {p.annotation}{'' if p.default is p.empty else f' = {p.default!r}'}"
        for p in taken
    ]
    if any(named):
        lines.insert(named.index(True), "*")
    call = f"{name}({', '.join(lines)})"
    if len(call) > LINE:
        call = f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + ")"
    call += f" -> {signature.return_annotation}"
    return f"```python\n{call}\n```\n\n```text\n{inspect.getdoc(function)}\n```"


def errors() -> str:
    """Return a table of every error: what it means, and what to do."""
    rows = [
        (
            f"`{cls.__name__}`",
            required((cls.__doc__ or "").partition("\n")[0], cls.__name__),
            _advice(cls),
            # Only the type decides, and not every one can be made without a reason.
            code(str(status_of(cls.__new__(cls)).value)),
        )
        for cls in vars(vocabulary).values()
        if isinstance(cls, type) and issubclass(cls, PgMemoryError)
    ]
    head = ("Error", "What it means", "What to do", "A command's status")
    return table(head, rows)


def _advice(cls: type[PgMemoryError]) -> str:
    if issubclass(cls, Unavailable):
        return "the same call may succeed later; a write waits"
    if issubclass(cls, Rejected):
        return "change the input; the same one never succeeds"
    if cls is PgMemoryError:
        return "see its branches below"
    return "change what it names; writes wait meanwhile"
