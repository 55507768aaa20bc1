"""What a private chat wrote is known again in the file, however that shows it."""

from __future__ import annotations

import pytest

from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.text import split_entries


@pytest.mark.parametrize(
    "note",
    [
        "one line",
        "two\r\nlines",
        "a secret\n§\nand another",
        " spaced \r",
        "\n§\n\ud83c",
    ],
)
def test_nothing_of_a_note_is_imported(tmp_path, note):
    PrivateNotes(tmp_path).add(note)
    file = f"for everybody\n§\n{note}".encode("utf-8", "surrogatepass")
    entries, _ = split_entries(file)
    assert PrivateNotes(tmp_path).without(tuple(entries)) == ("for everybody",)
