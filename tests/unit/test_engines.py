"""Who shares an engine, and who needs another one."""

from __future__ import annotations

import inspect
import re

from hermes_pgmemory import engine, engines
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import factory


def test_agents_that_differ_in_what_an_engine_is_built_from_share_none():
    source = inspect.getsource(engine) + inspect.getsource(factory)
    read = set(re.findall(r"\bsettings\.(\w+)", source)) & set(Settings.model_fields)
    assert len(read) > 10
    assert set(engines._SHAPING) == read
