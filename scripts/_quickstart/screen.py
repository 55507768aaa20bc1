"""What people see: steps on stderr while it runs, findings on stdout at the end."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from _quickstart.evidence import Evidence
from _quickstart.findings import Finding
from _quickstart.fleet import Fleet
from _quickstart.minions import MINIONS, Minion


class Step:
    """One step under way; it may say what it is at, and what came of it."""

    def __init__(self, console: Console) -> None:
        """Report to *console*."""
        self.outcome = "done"
        self._console = console
        self._status = console.status("") if console.is_terminal else None

    def now(self, text: str) -> None:
        """Show *text* beside the spinner, where there is one."""
        if self._status is not None:
            self._status.update(f"[dim]{escape(text[:72])}")

    def tell(self, line: str) -> None:
        """Print *line* below the step's title."""
        self._console.print(f"      [dim]{escape(line)}")

    def __enter__(self) -> Self:
        """Start the spinner."""
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the spinner."""
        if self._status is not None:
            self._status.stop()


class Screen:
    """Both streams of a run."""

    STEPS = 5
    """How many steps there are before the end."""

    def __init__(self) -> None:
        """Use colour and a spinner on a terminal only."""
        self._progress = Console(stderr=True, highlight=False, soft_wrap=True)
        self._results = Console(highlight=False)
        self._number = 0

    def say(self, text: str) -> None:
        """Tell something beside the steps."""
        self._progress.print(escape(text))

    def hello(self, root: Path) -> None:
        """Say what is about to happen."""
        self._progress.print("[bold]hermes-pgmemory[/]: three agents, one memory.\n")
        self.say(
            "marketing, sales and trading run on the real hermes-agent. They note and\n"
            "change memories, and talk. Then a second host, which has nothing but the\n"
            "database in common with the first, asks each of them what it knows.\n"
            "Only the chat model is scripted; nothing leaves this machine.\n"
            f"Everything is in {root}\n"
        )

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Announce a step, and tell how it ended and how long it took."""
        self._number += 1
        started = time.monotonic()
        last = self._number > self.STEPS
        head = "[end]" if last else f"[{self._number}/{self.STEPS}]"
        self._progress.print(f"[cyan]{escape(head)}[/] {escape(title)}")
        with Step(self._progress) as step:
            yield step
        took = f"{time.monotonic() - started:.1f} s"
        self._progress.print(f"      [green]{escape(step.outcome)}[/] [dim]({took})[/]")

    def findings(self, findings: Sequence[Finding], evidence: Evidence) -> None:
        """Print the table, and one example per theme."""
        plain = not self._results.is_terminal
        table = Table(
            title="What each theme recalled on the second host",
            box=box.ASCII if plain else box.ROUNDED,
        )
        columns = ("theme", "finds\nits own", "comes\nunasked", "leaks from\nothers")
        more = ("finds others\nwith scope=all", "removed,\nyet found")
        for column in (*columns, *more):
            table.add_column(column)
        for finding in findings:
            table.add_row(
                finding.theme,
                str(finding.own),
                str(finding.ambient),
                str(len(finding.leaks)),
                str(finding.everywhere),
                str(len(finding.revenants)),
            )
        self._results.print(table)
        self._examples(evidence)

    def _examples(self, evidence: Evidence) -> None:
        """Show, per theme, one question and what it brought back."""
        for minion in MINIONS:
            fact = minion.memories[0]
            unasked = any(
                fact.text in block.memory
                for block in evidence.ambient
                if (block.theme, block.said) == (minion.theme, fact.question)
            )
            asked = any(
                fact.text in recall.result
                for recall in evidence.recalls
                if (recall.theme, recall.query) == (minion.theme, fact.question)
            )
            if unasked or asked:
                how = "remembered" if unasked else "looked it up"
                self._results.print(
                    f"  [bold]{minion.theme}[/] was asked: {escape(fact.question)}\n"
                    f"    and {how}: [green]{escape(fact.text)}[/]"
                )
        self._results.print()

    def how_to_go_on(self, fleet: Fleet) -> None:
        """Tell how to talk to a kept fleet, look into it, and stop it."""
        lines = [
            "The fleet is running. Talk to its second host, one minion each:",
            *(f"\n{_curl(fleet, minion)}" for minion in MINIONS),
            "",
            "The model is scripted: it repeats the first thing it remembers. It calls",
            "a tool if a message has a line `CALL <tool> <json>`, for instance",
            '  CALL recall_memory {"query": "What is planned?", "scope": "all"}',
            "",
            "Look at what is kept:",
            *(f"  {command}" for command in fleet.look_commands()),
            "",
            "Stop it:",
            "  scripts/quickstart --stop",
        ]
        self._results.print("\n".join(lines), markup=False, soft_wrap=True)

    def failed(self, reason: str, logs: Path) -> None:
        """Give the one reason, and where to read more."""
        self._progress.print(f"[bold red]failed:[/] {escape(reason)}")
        if logs.exists():
            self._progress.print(f"The logs are in {escape(str(logs))}")


def _curl(fleet: Fleet, minion: Minion) -> str:
    messages = [
        {"role": "system", "content": minion.persona},
        {"role": "user", "content": minion.memories[0].question},
    ]
    body = json.dumps({"model": "hermes-agent", "messages": messages})
    return (
        f"  curl -s http://127.0.0.1:{fleet.readers.port}/v1/chat/completions \\\n"
        f"    -H 'Authorization: Bearer {fleet.readers.key}' \\\n"
        f"    -H 'X-Hermes-Session-Key: {minion.theme}' \\\n"
        f"    -H 'Content-Type: application/json' \\\n"
        f"    -d {shlex.quote(body)}"
    )
