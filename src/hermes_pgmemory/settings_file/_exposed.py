"""Whether a password lies where other users of the host may read it."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Final

from hermes_pgmemory.config import Settings

_PASSWORD: Final = re.compile(r"password\s*=|://[^@]*:.*@")


def is_exposed(config_yaml: Path, settings: Settings) -> bool:
    """Tell whether anybody may read *config_yaml*, and a setting holds a password.

    A password that comes from the environment counts, too: nobody can tell.
    """
    if not config_yaml.is_file():
        return False
    held = (
        settings.dsn.get_secret_value(),
        settings.dsn_read.get_secret_value(),
        settings.embed_url,
    )
    readable = config_yaml.stat().st_mode & stat.S_IROTH
    return bool(readable) and any(_PASSWORD.search(value) for value in held)
