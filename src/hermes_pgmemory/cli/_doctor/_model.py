"""Checks of the embedder, and of one recall all the way."""

from __future__ import annotations

import time
from typing import Final

from hermes_pgmemory.cli._doctor._world import Finding, Level, World
from hermes_pgmemory.embedding_models import profile_for
from hermes_pgmemory.errors import PgMemoryError, UnembeddableText
from hermes_pgmemory.models import Scope, Vector
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import probe
from hermes_pgmemory.tools import LIMIT_DEFAULT

TIMEOUT_S: Final = 30.0
"""The first request may start and load the local model."""
QUERY: Final = "When does the ship leave the harbour?"
ANSWER: Final = "The boat sails from the port at nine in the morning."
UNRELATED: Final = "Whisk the egg whites with sugar until they are stiff."
BATCH: Final = 64
SLOW_S: Final = 1.0
"""A question that takes longer to embed makes agents wait."""


def embedder(world: World) -> Finding:
    """Does the model answer, and how fast?"""
    model = world.embedder
    try:
        started = time.monotonic()
        found = model.probe(timeout_s=TIMEOUT_S)
        cold_s = time.monotonic() - started
        started = time.monotonic()
        model.embed_query(QUERY, timeout_s=TIMEOUT_S)
        warm_s = time.monotonic() - started
    except PgMemoryError:
        world.failed("embedder")
        raise
    facts = {
        "model": found.name,
        "dimension": found.dimension,
        "cold_s": round(cold_s, 4),
        "warm_s": round(warm_s, 4),
    }
    detail = (
        f"{found.name}, {found.dimension} dimensions, {cold_s * 1000:.0f} ms cold, "
        f"{warm_s * 1000:.0f} ms warm"
    )
    if warm_s > SLOW_S:
        fix = "use a smaller model, or an endpoint nearby"
        return Finding(Level.WRONG, detail, fix, facts)
    return Finding(Level.OK, detail, facts=facts)


def batches(world: World) -> Finding:
    """How many texts does it take at once, and how many a second?"""
    model = world.embedder
    texts = [f"{ANSWER} ({n})" for n in range(BATCH)]
    started = time.monotonic()
    answers = model.embed_documents(texts, timeout_s=TIMEOUT_S)
    texts_per_s = len(texts) / max(time.monotonic() - started, 1e-6)
    facts = {"batch": model.batch, "texts_per_s": round(texts_per_s, 1)}
    refused = [answer for answer in answers if isinstance(answer, UnembeddableText)]
    if refused:
        fix = "check plugins.pgvector.embed_model: is it for embeddings?"
        return Finding(Level.WRONG, f"refuses plain texts: {refused[0]}", fix, facts)
    detail = f"up to {model.batch} texts in one request, {texts_per_s:.0f} texts/s"
    return Finding(Level.OK, detail, facts=facts)


def meaning(world: World) -> Finding:
    """Is an answer nearer to its question than something else is?"""
    model = world.embedder
    query = model.embed_query(QUERY, timeout_s=TIMEOUT_S)
    documents = model.embed_documents([ANSWER, UNRELATED], timeout_s=TIMEOUT_S)
    near, far = (_similarity(query, document) for document in documents)
    facts = {"related": round(near, 4), "unrelated": round(far, 4)}
    detail = f"an answer has similarity {near:.2f}, something else {far:.2f}"
    if near > far:
        return Finding(Level.OK, detail, facts=facts)
    fix = "check plugins.pgvector.embed_model and its prefixes; is it for retrieval?"
    return Finding(Level.WRONG, detail, fix, facts)


def _similarity(one: Vector, other: Vector | UnembeddableText) -> float:
    if isinstance(other, UnembeddableText):
        raise other
    return sum(a * b for a, b in zip(one, other, strict=True))


def identity(world: World) -> Finding:
    """Did the database's vectors come from this model?"""
    told = world.survey.parts["model"].facts
    world.need("database")
    world.need("schema")
    found = world.embedder.probe(timeout_s=TIMEOUT_S)
    stored, length = told.get("database"), told.get("dimension")
    fix = (
        "set plugins.pgvector.embed_model back, or move the database over with "
        "`hermes-pgvector reembed`"
    )
    if (stored, length) == (found.name, found.dimension):
        return Finding(Level.OK, f"the database's vectors are {stored}'s")
    detail = (
        f"the database's vectors are {stored}'s ({length} dimensions), the model is "
        f"{found.name} ({found.dimension})"
    )
    return Finding(Level.WRONG, detail, fix)


def recall(world: World) -> Finding:
    """Where does the time of one recall go?"""
    world.need("database")
    world.need("schema")
    model = world.embedder
    started = time.monotonic()
    vector = model.embed_query(f"{QUERY} ", timeout_s=TIMEOUT_S)
    embed_s = time.monotonic() - started
    question = Question(
        text=QUERY,
        vector=vector,
        scope=Scope(theme=None, subject=None, include_shared=True),
        limit=LIMIT_DEFAULT,
        scale=profile_for(model.name).scale,
    )
    spent = probe.time_search(world.dsn, question, model=model.name)
    phases = {
        "embed": embed_s,
        "connect": spent.connect_s,
        "sql": spent.sql_s,
        "fuse": spent.fuse_s,
    }
    facts = {f"{name}_s": round(seconds, 4) for name, seconds in phases.items()}
    told = [f"{name} {seconds * 1000:.1f} ms" for name, seconds in phases.items()]
    budget_s = world.settings.prefetch_budget_s
    if sum(phases.values()) <= budget_s:
        return Finding(Level.OK, ", ".join(told), facts=facts)
    fix = f"speed up the slowest; agents give up after {budget_s:g} s"
    return Finding(Level.WRONG, ", ".join(told), fix, facts)
