"""What a tool's description must be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}
MAX_NAME = 64
"""Characters that the providers of chat models take."""


def function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function's description, wrapped or bare."""
    inner = tool.get("function")
    return inner if isinstance(inner, dict) else tool  # pyright: ignore[reportReturnType]


def faults(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with one tool's schema."""
    try:
        json.dumps(tool, allow_nan=False)
    except (TypeError, ValueError) as exc:
        yield f"no JSON: {exc}"
        return
    one = function(tool)
    name = one.get("name")
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        yield f"name {name!r}"
    elif len(name) > MAX_NAME:
        yield f"name of {len(name)} characters"
    if not one.get("description"):
        yield f"{name}: no description"
    parameters = one.get("parameters")
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        yield f"{name}: parameters must be of type object"
        return
    yield from (f"{name}: {fault}" for fault in _node(parameters, "parameters"))


def _node(node: Any, where: str) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{where} is no schema"
        return
    kinds = node.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if unknown := [kind for kind in kinds if kind not in TYPES]:
        yield f"{where}: type {unknown[0]!r}"
    properties = node.get("properties", {})
    if missing := set(node.get("required", [])) - set(properties):
        yield f"{where}: requires {min(missing)!r}, which it does not describe"
    for key in ("enum", "anyOf", "oneOf", "allOf"):
        if key in node and not (isinstance(node[key], list) and node[key]):
            yield f"{where}: {key} must be a list with something in it"
    if "enum" in node and "default" in node and node["default"] not in node["enum"]:
        yield f"{where}: default is not in enum"
    inside = {f".{key}": inner for key, inner in properties.items()}
    inside |= {"[]": node["items"]} if "items" in node else {}
    for place, inner in inside.items():
        yield from _node(inner, where + place)
