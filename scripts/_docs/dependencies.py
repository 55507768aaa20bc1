"""What is installed with the package, and under which licences, from its metadata."""

from __future__ import annotations

from importlib.metadata import Distribution, distribution
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from _docs.words import Undocumented, table

PACKAGE: Final = "hermes-pgmemory"
_LICENCE: Final = "License :: OSI Approved :: "


def dependencies() -> str:
    """Return a table of all that a plain installation brings, by name."""
    named = {
        canonicalize_name(Requirement(line).name) for line in _wanted(PACKAGE, set())
    }
    return table(
        ("package", "version", "why", "licence"),
        [
            (
                name,
                distribution(name).version,
                "named" if name in named else "needed by these",
                _licence(distribution(name)),
            )
            for name in sorted(_closure())
        ],
    )


def _closure() -> set[str]:
    """Return the names of what the package needs, and of what that needs."""
    todo: list[tuple[str, frozenset[str]]] = [(PACKAGE, frozenset())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = one = todo.pop()
        if one not in seen:
            seen.add(one)
            for line in _wanted(name, set(extras)):
                wanted = Requirement(line)
                todo.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return {name for name, _ in seen} - {PACKAGE}


def _wanted(name: str, extras: set[str]) -> list[str]:
    """Return the requirements of an installed package that hold on this machine."""
    return [
        line
        for line in distribution(name).requires or ()
        if (marker := Requirement(line).marker) is None
        or any(marker.evaluate({"extra": extra}) for extra in extras or {""})
    ]


def _licence(found: Distribution) -> str:
    told = next(iter(_said(found, "License-Expression", "License")), "")
    if not told or "\n" in told:
        kinds = _said(found, "Classifier")
        told = ", ".join(k.removeprefix(_LICENCE) for k in kinds if _LICENCE in k)
    if not told:
        raise Undocumented(f"{found.name} does not say what its licence is")
    return told


def _said(found: Distribution, *keys: str) -> list[str]:
    return [value for key in keys for value in found.metadata.get_all(key) or ()]
