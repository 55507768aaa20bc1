"""A model of a hub, run on this host: here one that the test made, in a folder."""

from __future__ import annotations

import json
import math
from contextlib import closing

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import make_embedder
from hermes_pgmemory.errors import EmbedderUnavailable

NAME = "fastembed:BAAI/bge-small-en-v1.5"
WORDS = ["[PAD]", "[UNK]", "ship", "boat", "harbour", "egg", "sugar"]
WIDTH = 4
TIMEOUT_S = 60.0
LIKE = {"ship": 0, "boat": 0, "harbour": 1, "egg": 2, "sugar": 2}
"""Words of one number mean the same to this model."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a model: a sum of its words' vectors."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    files = {
        "config.json": {"pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": 64, "pad_token": "[PAD]"},
        "special_tokens_map.json": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    onnx.save(network(), str(folder / "model_optimized.onnx"))
    return folder


def network():
    table = np.zeros((len(WORDS), WIDTH), dtype=np.float32)
    table[1, 3] = 0.01
    for word, axis in LIKE.items():
        table[WORDS.index(word), axis] = 1
    axes = numpy_helper.from_array(np.array([1], dtype=np.int64), "axes")
    last = numpy_helper.from_array(np.array([2], dtype=np.int64), "last")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Cast", ["attention_mask"], ["told"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["told", "last"], ["mask"]),
        helper.make_node("Mul", ["words", "mask"], ["heard"]),
        helper.make_node("ReduceSum", ["heard", "axes"], ["last_hidden_state"]),
    ]
    shape = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["batch", 1, WIDTH]
    )
    table_tensor = numpy_helper.from_array(table, "table")
    graph = helper.make_graph(
        nodes, "sum", inputs, [output], [table_tensor, axes, last]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def embedder(folder, runtime_dir):  # noqa: ARG001 - the server must live there
    with closing(make_embedder(Settings(embed_model=f"{NAME}@{folder}"))) as embedder:
        yield embedder


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_its_vectors_are_the_models(embedder):
    model = embedder.probe(timeout_s=TIMEOUT_S)
    assert (model.name, model.dimension) == (NAME, WIDTH)
    assert model.query_prefix.startswith("Represent this sentence")
    boat, egg = embedder.embed_documents(["boat", "egg sugar"], timeout_s=TIMEOUT_S)
    asked = embedder.embed_query("ship", timeout_s=TIMEOUT_S)
    assert math.isclose(sum(x * x for x in boat), 1, abs_tol=1e-5)
    assert dot(asked, boat) > 0.9
    assert dot(asked, egg) < 0.5


def test_texts_of_any_length_are_embedded(embedder):
    texts = ["ship " * 50_000, "", *["egg"] * 40]
    *found, last = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
    assert len(found[0]) == WIDTH
    assert last == pytest.approx([0, 0, 1, 0], abs=1e-5)


def test_a_name_that_no_hub_has_is_refused_in_one_line(runtime_dir):  # noqa: ARG001
    with (
        closing(make_embedder(Settings(embed_model="fastembed:nobody/nothing"))) as bad,
        pytest.raises(EmbedderUnavailable) as caught,
    ):
        bad.embed_query("ship", timeout_s=TIMEOUT_S)
    assert "does not start; see " in str(caught.value)
    log = str(caught.value).rpartition(" ")[2]
    with open(log) as lines:  # noqa: PTH123
        assert "nobody/nothing" in lines.read()


def test_the_extra_is_named_where_it_is_missing(monkeypatch, runtime_dir):  # noqa: ARG001
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with (
        closing(make_embedder(Settings(embed_model="fastembed:any"))) as embedder,
        pytest.raises(EmbedderUnavailable, match="pip install"),
    ):
        embedder.embed_query("ship", timeout_s=TIMEOUT_S)
