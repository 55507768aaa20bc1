"""A tokenizer of single bytes, where a program would fetch one from OpenAI."""

from __future__ import annotations

from contextlib import suppress


def stand_in() -> None:
    """Have tiktoken know no other, if it is installed."""
    with suppress(ImportError):
        import tiktoken  # noqa: PLC0415 - the programs that lack it never count

        letters = tiktoken.Encoding(
            name="bytes",
            pat_str=r"[\s\S]",
            mergeable_ranks={bytes([byte]): byte for byte in range(256)},
            special_tokens={},
        )
        tiktoken.get_encoding = tiktoken.encoding_for_model = lambda _: letters
