"""A memory provider that gets wrong what can be got wrong; for the checks' own test."""

from __future__ import annotations

import json
import os
import socket
import threading
import time

from agent.memory_provider import MemoryProvider

NOTES, TURNS = [], []
"""In memory, for everybody."""


class Careless(MemoryProvider):
    name = "careless"

    def is_available(self):
        socket.create_server(("127.0.0.1", 0)).close()
        with open(os.path.join(os.environ["HERMES_HOME"], "trace"), "w"):
            return True

    def get_config_schema(self):
        return [{"key": "depth"}]

    def backup_paths(self):
        return ["relative/path"]

    def get_tool_schemas(self):
        extra = [] if hasattr(self, "thread") else [{"name": "late tool"}]
        parameters = {"type": "object", "properties": {"query": {"type": "text"}}}
        tools = [
            {"name": name, "description": "Recall.", "parameters": parameters}
            for name in ("recall_notes", "recall_turns", "memory")
        ]
        return tools + extra

    def initialize(self, session_id, **kwargs):
        with open(os.path.join(kwargs["hermes_home"], "config.yaml")) as config:
            self.slow = 1 if '"silent": true' in config.read() else 0
        kwargs.get("gateway_session_key", "").encode()
        self.thread = threading.Thread(target=threading.Event().wait, daemon=True)
        self.thread.start()

    def system_prompt_block(self):
        return f"{len(NOTES)} notes"

    def prefetch(self, query, *, session_id=""):
        return None

    def on_turn_start(self, turn_number, message):
        time.sleep(self.slow)

    def handle_tool_call(self, tool_name, args):
        kept = {"recall_notes": NOTES, "recall_turns": TURNS}[tool_name]
        found = [text for text in kept if args["query"] in text]
        return json.dumps({"results": [{"content": text} for text in found]})

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=()):
        time.sleep(self.slow)
        for message in messages:
            message.setdefault("seen", True)
            TURNS.append(message.get("api_content") or message["content"])

    def on_session_switch(self, new_session_id, *, parent_session_id=""):
        pass

    def on_session_end(self, messages):
        TURNS.extend(message["content"] for message in messages)

    def on_memory_write(self, action, target, content, metadata=None):
        time.sleep(self.slow)
        if "\0" in content:
            raise ValueError("a NUL")
        old = (metadata or {}).get("old_text", "")
        if action == "remove":
            words = old.strip("%_").split() or [""]
            NOTES[:] = [text for text in NOTES if words[0] not in text][:-1]
        else:
            NOTES.append(content)

    def shutdown(self):
        del self.thread


ONLY = Careless()


def register(ctx):
    ctx.register_memory_provider(ONLY)
