"""What was found, for people and as JSON."""

from __future__ import annotations

import inspect
import json
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from conformance_kit.adapter import Adapter

PASSED, FAILED, NOT_OFFERED = "passed", "failed", "not offered"


class Report:
    """The outcomes of one run, in the order of the checks."""

    def __init__(self, adapter: Adapter) -> None:
        """Start with nothing found about the adapter's provider."""
        self._adapter = adapter
        self._checks: dict[str, dict[str, Any]] = {}

    def note(self, item: Any, made: Any, id_: str, kind: str) -> None:
        """Take one phase of one check: its setting up, the check, its clearing up."""
        check = self._checks.setdefault(
            id_,
            {
                "id": id_,
                "kind": kind,
                "sentence": " ".join((inspect.getdoc(item.function) or "").split()),
                "outcome": PASSED,
                "why": "",
                "seconds": 0.0,
            },
        )
        check["seconds"] = round(check["seconds"] + made.duration, 2)
        if made.skipped:
            check.update(outcome=NOT_OFFERED, why=_reason(made))
        elif made.failed:
            check.update(outcome=FAILED, why=_reason(made))

    def why(self, id_: str) -> str:
        """Return why a check failed, in a line."""
        return self._checks[id_]["why"]

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {
            "provider": self._adapter.name,
            "adapter": self._adapter.path.stem,
            "version": _version(self._adapter.version),
            "host": _version("hermes-agent"),
            "python": platform.python_version(),
            "date": datetime.now(UTC).date().isoformat(),
            "checks": [*self._checks.values()],
        }
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _version(name: str) -> str:
    """Return a distribution's version; a name that is none stands for itself."""
    try:
        return f"{name} {version(name)}"
    except (PackageNotFoundError, ValueError):
        return name


def _reason(made: Any) -> str:
    if made.skipped:
        return made.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(made.longrepr, "reprcrash", None)
    text = crash.message if crash else made.longreprtext
    line = text.partition("\n")[0]
    return re.sub(r"^(AssertionError|[\w.]*TooLong): ", "", line)[:300]
