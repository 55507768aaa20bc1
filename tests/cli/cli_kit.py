"""What the tests of the command share beside fixtures."""

from __future__ import annotations

from collections.abc import Callable

from command_kit import Ran

Run = Callable[..., Ran]
