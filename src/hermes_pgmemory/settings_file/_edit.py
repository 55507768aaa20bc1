"""Change values in a YAML text without touching the rest of it.

A change is made in the text itself, at the place where the parser says the value
stands: every other byte, comments, quotes, line ends and indentation included,
stays as the operator wrote it. The edited text is parsed again and must mean
exactly what was asked; where it does not, nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from hermes_pgmemory.settings_file import _yaml
from hermes_pgmemory.settings_file._yaml import Node, YamlProblem, compose, plain

KeyPath = tuple[str, ...]
"""Keys from the top of the document down to one value."""

_BARE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+@:=?&%-]*(?<!:)")
_BARE_IN_FLOW: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+@-]*")
_RESERVED: Final = frozenset(
    {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}
)
_DOCUMENT_END: Final = re.compile(r"^(\.\.\.|---)", re.MULTILINE)


def edit(text: str, changes: Mapping[KeyPath, Any]) -> str:
    """Return *text* with every change made and nothing else touched.

    Raises:
        YamlProblem: The text cannot be parsed, a parent is not a mapping, or the
            value stands where no safe edit is possible (behind an alias, say).
    """
    for path, value in changes.items():
        root = compose(text)
        if _is_set(root, path, value):
            continue
        edited = _Edit(text, path, value).made(compose(text, marks=True))
        if plain(compose(edited)) != _changed(plain(root), path, value):
            raise YamlProblem(f"{'.'.join(path)} cannot be set here; set it by hand")
        text = edited
    return text


def _is_set(root: Node, path: KeyPath, value: Any) -> bool:
    """Tell whether *value* stands at *path* already."""
    node = root
    for key in path:
        node = _yaml.child(node, key)
    if node is None:
        return False
    present = plain(node)
    if isinstance(value, str) and _yaml.is_scalar(node):
        return present is not None and str(node.value) == value
    wanted = list(cast("tuple[Any]", value)) if isinstance(value, tuple) else value
    return type(present) is type(wanted) and present == wanted


def _changed(data: Any, path: KeyPath, value: Any) -> Any:
    """Return a copy of *data* with *value* at *path*, as a parser would see it."""
    if not path:
        return list(cast("tuple[Any]", value)) if isinstance(value, tuple) else value
    base: dict[str, Any] = dict(data or {})
    base[path[0]] = _changed(base.get(path[0]), path[1:], value)
    return base


class _Edit:
    """One change of one value in one text."""

    def __init__(self, text: str, path: KeyPath, value: Any) -> None:
        self.text = text
        self.path = path
        self.value = value
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def made(self, root: Node) -> str:
        """Find the place and return the new text."""
        if root is None:
            return self._add_lines(len(self.text), self._block(0, 0))
        node = root
        last = len(self.path) - 1
        for depth, key in enumerate(self.path):
            if not _yaml.is_mapping(node):
                where = ".".join(self.path[:depth]) or "the document"
                raise YamlProblem(f"{where} is not a mapping", _line(node))
            found = _yaml.pair(node, key)
            if found is None:
                return self._insert(node, depth)
            if depth == last:
                return self._replace(*found)
            if _is_null(found[1]):
                grow = self._grow_in_flow if node.flow_style else self._grow
                return grow(*found, depth + 1)
            node = found[1]
        raise YamlProblem("no key given")

    def _replace(self, key: Node, value: Node) -> str:
        start, end = int(value.start_mark.index), self._end(value)
        after_key = self.text.index(":", key.end_mark.index) + 1
        if start < after_key:  # the node stands where its anchor is
            raise YamlProblem(f"{'.'.join(self.path)} is an alias", _line(key))
        if not self.text[after_key:start].strip():
            start = after_key
        style = value.style if _yaml.is_scalar(value) else None
        return f"{self.text[:start]} {_spell(self.value, style)}{self.text[end:]}"

    def _grow(self, key: Node, value: Node, depth: int) -> str:
        """Give the empty *value* of *key* its first child."""
        head = self.text[: value.start_mark.index].rstrip(" ")
        self.text = head + self.text[value.end_mark.index :]
        block = self._block(depth, int(key.start_mark.column) + 2)
        return self._add_lines(self._line_end(len(head)), block)

    def _grow_in_flow(self, key: Node, value: Node, depth: int) -> str:
        """Give the empty *value* of *key* its first child, between braces."""
        if ":" not in self.text[key.end_mark.index : value.start_mark.index]:
            raise YamlProblem(f"{self.path[depth - 1]} has no colon", _line(key))
        child = self._flow(depth)
        head = self.text[: value.start_mark.index].rstrip(" ")
        return f"{head} {{{child}}}{self.text[value.end_mark.index :]}"

    def _insert(self, node: Node, depth: int) -> str:
        """Add the missing rest of the path as the last entry of *node*."""
        if node.flow_style:
            return self._insert_in_flow(node, depth)
        place = self._line_end(self._end(node))
        if depth == 0 and not _DOCUMENT_END.search(self.text, place):
            place = len(self.text)
        column = int(node.value[0][0].start_mark.column)
        return self._add_lines(place, self._block(depth, column))

    def _insert_in_flow(self, node: Node, depth: int) -> str:
        entry = self._flow(depth)
        place = int(node.end_mark.index) - 1
        if node.value:
            place, entry = self._end(node.value[-1][1]), f", {entry}"
        return self.text[:place] + entry + self.text[place:]

    def _flow(self, depth: int) -> str:
        """Write the path from *depth* on as one entry of a flow mapping."""
        value = _spell(self.value, None, flow=True)
        for key in reversed(self.path[depth + 1 :]):
            value = f"{{{key}: {value}}}"
        return f"{self.path[depth]}: {value}"

    def _block(self, depth: int, column: int) -> str:
        """Write the path from *depth* on as nested lines, indented by *column*."""
        keys = self.path[depth:]
        lines = [f"{' ' * (column + 2 * i)}{key}:" for i, key in enumerate(keys)]
        lines[-1] += f" {_spell(self.value, None)}"
        return self.newline.join(lines)

    def _add_lines(self, place: int, lines: str) -> str:
        """Put *lines* on lines of their own after *place*, the end of a line."""
        head, tail = self.text[:place], self.text[place:]
        if head.strip("\ufeff") and not head.endswith("\n"):
            head += self.newline
        if tail.startswith(self.newline):
            return head + lines + tail
        return head + lines + self.newline + tail

    def _line_end(self, place: int) -> int:
        end = self.text.find("\n", place)
        if end < 0:
            return len(self.text)
        return end - 1 if self.text[end - 1] == "\r" else end

    def _end(self, node: Node) -> int:
        """Return where the text of *node* ends, without the blanks that follow it."""
        if not _yaml.is_scalar(node) and node.value and not node.flow_style:
            last = node.value[-1]
            if _yaml.is_sequence(node):
                return self._end(last)
            return max(int(last[0].end_mark.index), self._end(last[1]))
        end = int(node.end_mark.index)
        if _yaml.is_scalar(node) and node.style in ("|", ">"):
            end = len(self.text[:end].rstrip())
        return end


def _is_null(node: Node) -> bool:
    return _yaml.is_scalar(node) and plain(node) is None


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _spell(value: Any, style: str | None, *, flow: bool = False) -> str:
    """Write *value* on one line so that YAML 1.1 and 1.2 read the same."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        pairs = (
            f"{_spell(str(key), None, flow=True)}: {_spell(item, None, flow=True)}"
            for key, item in items
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        parts = cast("Sequence[Any]", value)
        return f"[{', '.join(_spell(part, None, flow=True) for part in parts)}]"
    return _spell_text(str(value), style, flow=flow)


def _spell_text(text: str, style: str | None, *, flow: bool) -> str:
    """Write a string, in the quotes it had, and never so that it reads as another."""
    if not text or (style == "'" and text.isprintable()):
        return "'" + text.replace("'", "''") + "'"
    bare = _BARE_IN_FLOW if flow else _BARE
    if style == '"' or not bare.fullmatch(text) or text.lower() in _RESERVED:
        return f'"{"".join(map(_escaped, text))}"'
    return text


def _escaped(char: str) -> str:
    """Write one character of a double-quoted string."""
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"
