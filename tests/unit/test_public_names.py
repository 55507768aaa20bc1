"""What docs/reference/compatibility.md promises is still there.

Names may be added; running this file as a program prints all there are now.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import sys
from importlib.resources import files
from pathlib import Path

import hermes_pgmemory
from hermes_pgmemory import cli, errors, models
from hermes_pgmemory.config import Settings
from hermes_pgmemory.metrics import declared
from hermes_pgmemory.tools import TOOL_SCHEMAS

PROMISED = Path(__file__).with_name("public_names.json")


def surface() -> dict[str, dict[str, list[str]]]:
    """Return every public name, by kind and by what it belongs to."""
    return {
        "package": {"hermes_pgmemory": sorted(hermes_pgmemory.__all__)},
        "calls": _calls(),
        "fields": {
            cls.__name__: [field.name for field in dataclasses.fields(cls)]
            for cls in (models.Entry, models.EntryHit, models.TurnHit, models.Neighbour)
        },
        "errors": {
            name: [base.__name__ for base in one.__mro__[1:-3]]
            for name, one in vars(errors).items()
            if isinstance(one, type) and issubclass(one, errors.PgMemoryError)
        },
        "settings": {"plugins.pgvector": list(Settings.model_fields)},
        "tools": {
            tool["name"]: list(tool["parameters"]["properties"])
            for tool in TOOL_SCHEMAS
        },
        "commands": _commands(),
        "tables": _tables(),
        "metrics": {one.name: [one.label] for one in declared()},
    }


def _calls() -> dict[str, list[str]]:
    memory = hermes_pgmemory.Memory
    public = {
        name: one
        for name, one in inspect.getmembers(memory, inspect.isfunction)
        if not name.startswith("_")
    }
    public["Memory"] = memory.__init__
    return {
        name: [
            str(parameter).partition(":")[0]
            for parameter in inspect.signature(one).parameters.values()
            if parameter.name != "self"
        ]
        for name, one in public.items()
    }


def _commands() -> dict[str, list[str]]:
    tree = argparse.ArgumentParser()
    cli.register_cli(tree)
    [verbs] = [a for a in tree._actions if isinstance(a, argparse._SubParsersAction)]
    return {
        name: sorted(
            word
            for action in parser._actions
            for word in action.option_strings or [action.dest]
        )
        for name, parser in verbs.choices.items()
    }


def _tables() -> dict[str, list[str]]:
    schema = files("hermes_pgmemory.store").joinpath("schema.sql").read_text()
    found = re.findall(
        r"^CREATE TABLE (\w+) \(\n(.*?)^\)", schema, re.MULTILINE | re.DOTALL
    )
    return {
        name: re.findall(r"^    ([a-z_]+) +[a-z]", body, re.MULTILINE)
        for name, body in found
    }


def missing() -> list[str]:
    """Return what is promised and gone."""
    now = surface()
    return [
        f"{kind}: {owner}: {name}"
        for kind, owners in json.loads(PROMISED.read_text()).items()
        for owner, names in owners.items()
        for name in names or [None]
        if name not in (now[kind].get(owner, []) or [None]) or owner not in now[kind]
    ]


def test_nothing_that_was_promised_is_gone():
    assert missing() == []


def test_the_library_takes_its_arguments_in_the_promised_order():
    assert surface()["calls"] == json.loads(PROMISED.read_text())["calls"]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(surface(), indent=1))
