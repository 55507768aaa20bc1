"""Read YAML as plain values; the parser's nodes stay within this package."""

from __future__ import annotations

from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

Node = Any
"""A node of the parser, or None; it gives its attributes no types."""

_MERGE: Final = "tag:yaml.org,2002:merge"
_TOO_DEEP: Final = "an alias names itself, or it nests too deeply"


class YamlProblem(Exception):
    """The text cannot be read or edited; says where, never what stands there."""

    def __init__(self, why: str, line: int | None = None) -> None:
        """Phrase the reason and the 1-based line, if one is known."""
        super().__init__(why if line is None else f"{why} in line {line}")


def compose(text: str, *, marks: bool = False) -> Node:
    """Parse *text* into nodes; None for an empty document.

    Args:
        text: One YAML document.
        marks: Whether exact character positions and styles are needed; the fast
            parser does not tell them all.

    Raises:
        YamlProblem: The text is not one YAML document.
    """
    yaml: Any = YAML(typ="rt" if marks else "safe")
    try:
        return yaml.compose(text)
    except YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        line = None if mark is None else int(mark.line) + 1
        raise YamlProblem("not valid YAML", line) from None
    except RecursionError:
        raise YamlProblem(_TOO_DEEP) from None


def is_mapping(node: Node) -> bool:
    """Tell whether *node* holds keys and values."""
    return node is not None and node.id == "mapping"


def is_sequence(node: Node) -> bool:
    """Tell whether *node* is a list."""
    return node is not None and node.id == "sequence"


def is_scalar(node: Node) -> bool:
    """Tell whether *node* is a single value."""
    return node is not None and node.id == "scalar"


def plain(node: Node) -> Any:
    """Turn *node* into dicts, lists and scalars; of equal keys the last one wins.

    Raises:
        YamlProblem: It says what cannot be turned into these.
    """
    try:
        return _plain(node)
    except RecursionError:
        raise YamlProblem(_TOO_DEEP) from None


def _plain(node: Node) -> Any:
    if is_mapping(node):
        return _plain_mapping(node)
    if is_sequence(node):
        return [_plain(item) for item in node.value]
    return None if node is None else _plain_scalar(node)


def _plain_mapping(node: Node) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in node.value:
        if key.tag != _MERGE:
            own[str(key.value)] = _plain(value)
            continue
        bases = value.value if is_sequence(value) else [value]
        for base in reversed(bases):
            if not is_mapping(base):
                raise YamlProblem("<< takes a mapping", int(base.start_mark.line) + 1)
            merged.update(_plain_mapping(base))
    return {**merged, **own}


def _plain_scalar(node: Node) -> Any:
    """Read one value; what only looks like a number stays text."""
    text = str(node.value)
    kind = str(node.tag).rpartition(":")[2]
    try:
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text, 0)
            case "float":
                return float(text)
            case _:
                return text
    except ValueError:
        return text


def pair(node: Node, key: str) -> tuple[Node, Node] | None:
    """Return the nodes of *key* and its value in a mapping node, or None."""
    if not is_mapping(node):
        return None
    found = [item for item in node.value if str(item[0].value) == key]
    return found[-1] if found else None


def child(node: Node, key: str) -> Node:
    """Return the node of the value under *key* of a mapping node, or None."""
    found = pair(node, key)
    return None if found is None else found[1]
