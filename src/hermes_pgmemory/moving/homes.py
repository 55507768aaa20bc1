"""Homes of the host below a folder: its root, and the profiles in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.identity import resolve
from hermes_pgmemory.models import Theme
from hermes_pgmemory.moving.values import WORKSPACE, Aim, policy_of
from hermes_pgmemory.paths import HomePaths

PROFILES = "profiles"


@dataclass(frozen=True, slots=True)
class Found:
    """A home, and what the host calls its profile."""

    paths: HomePaths
    profile: str

    def theme(self, aim: Aim) -> Theme:
        """Return the theme of the home itself, whoever speaks through it."""
        _, settings = aim.settings_of(self.paths.home)
        return resolve(
            gateway_session_key=None,
            agent_identity=aim.theme or self.profile,
            agent_workspace=WORKSPACE,
            platform=None,
            chat_type=None,
            user_id=None,
            user_id_alt=None,
            chat_id=None,
            policy=policy_of(settings),
        ).theme


def homes(paths: Sequence[Path], aim: Aim) -> Iterator[Found]:
    """Yield the homes at *paths*, each with its profiles; the operator's, if none.

    Raises:
        BadRequest: One of the paths is no folder.
    """
    for root in paths or (aim.home,):
        if not root.is_dir():
            raise BadRequest(f"{root} is no folder")
        yield Found(HomePaths(root), profile_of(root))
        below = root / PROFILES
        if below.is_dir():
            for home in sorted(below.iterdir()):
                if home.is_dir():
                    yield Found(HomePaths(home), profile_of(home))


def profile_of(home: Path) -> str:
    """Return the profile's name as the host tells it; ours may be escaped."""
    folder = home.resolve()
    return unquote(folder.name) if folder.parent.name == PROFILES else "default"
