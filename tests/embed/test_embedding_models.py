from __future__ import annotations

import pytest

from hermes_pgmemory.embedding_models import (
    LOCAL_MODEL,
    PLAIN,
    profile_for,
)

REPRESENT = "Represent this sentence for searching relevant passages: "


class TestPrefixes:
    @pytest.mark.parametrize(
        ("model", "query", "document"),
        [
            (LOCAL_MODEL, "query: ", "passage: "),
            ("intfloat/e5-base-v2", "query: ", "passage: "),
            ("nomic-embed-text", "search_query: ", "search_document: "),
            ("nomic-embed-text:latest", "search_query: ", "search_document: "),
            (
                "text-embedding-nomic-embed-text-v1.5",
                "search_query: ",
                "search_document: ",
            ),
            (
                "hf.co/nomic-ai/nomic-embed-text-v1.5-GGUF:Q4_K_M",
                "search_query: ",
                "search_document: ",
            ),
            ("mxbai-embed-large", REPRESENT, ""),
            ("BAAI/bge-small-en-v1.5", REPRESENT, ""),
            ("snowflake-arctic-embed:335m", REPRESENT, ""),
            ("snowflake-arctic-embed2", "query: ", ""),
            ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
            (
                "embeddinggemma:300m",
                "task: search result | query: ",
                "title: none | text: ",
            ),
        ],
    )
    def test_a_family_is_known_in_any_spelling(self, model, query, document):
        profile = profile_for(model)
        assert (profile.query_prefix, profile.document_prefix) == (query, document)

    @pytest.mark.parametrize("model", ["qwen3-embedding:0.6b", "Qwen3-Embedding-8B"])
    def test_an_instructed_model_gets_a_task_for_queries_only(self, model):
        profile = profile_for(model)
        assert profile.query_prefix.startswith("Instruct: ")
        assert profile.query_prefix.endswith("\nQuery:")
        assert profile.document_prefix == ""

    def test_an_instructed_e5_is_not_a_plain_e5(self):
        profile = profile_for("intfloat/multilingual-e5-large-instruct")
        assert profile.query_prefix.startswith("Instruct: ")
        assert profile.document_prefix == ""

    @pytest.mark.parametrize(
        "model", ["text-embedding-3-small", "all-minilm", "bge-m3", "home5-model", ""]
    )
    def test_a_model_that_is_not_known_gets_none(self, model):
        assert profile_for(model) == PLAIN

    def test_the_operator_has_the_last_word(self):
        profile = profile_for("nomic-embed-text", query_prefix="", document_prefix="d ")
        assert (profile.query_prefix, profile.document_prefix) == ("", "d ")

    def test_what_the_operator_leaves_alone_stays_the_models_own(self):
        profile = profile_for(LOCAL_MODEL, query_prefix="find: ")
        assert profile.document_prefix == "passage: "
        assert profile.scale.floor == 0.75
