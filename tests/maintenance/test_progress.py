from __future__ import annotations

import io
import sys

from hermes_pgmemory.cli import _progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_far_it_is(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with _progress.bar("backfill", total=3) as advance:
        advance(2)
    shown = sys.stderr.getvalue()
    assert "backfill" in shown
    assert "2/3" in shown


def test_without_a_total_it_counts(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with _progress.bar("prune") as advance:
        advance(7)
    assert "7/?" in sys.stderr.getvalue()


def test_a_file_sees_nothing(capsys):
    with _progress.bar("prune") as advance:
        advance(7)
    assert capsys.readouterr() == ("", "")
