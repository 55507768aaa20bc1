from __future__ import annotations

import base64
import json
import math
import struct

import httpx
import pytest

from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import make_embedder
from hermes_pgmemory.errors import (
    ConfigError,
    DimensionMismatch,
    EmbedderUnavailable,
    UnembeddableText,
)

TIMEOUT_S = 5.0


def error(status, message):
    return httpx.Response(status, json={"error": {"message": message}})


def sent(request):
    return json.loads(request.content)


class TestRequests:
    def test_without_a_model_nomic_is_asked_for(self, endpoint, embedder_for):
        embedder = embedder_for(endpoint)
        embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        assert embedder.name == "nomic-embed-text"
        assert sent(endpoint.requests[0])["model"] == "nomic-embed-text"

    def test_a_query_is_not_a_document(self, endpoint, embedder_for):
        embedder = embedder_for(endpoint)
        embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        embedder.embed_documents(["tea"], timeout_s=TIMEOUT_S)
        assert endpoint.batches == [["search_query: tea"], ["search_document: tea"]]

    def test_prefixes_are_the_operators_to_choose(self, endpoint, embedder_for):
        embedder = embedder_for(
            endpoint, embed_query_prefix="", embed_document_prefix="d "
        )
        embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        embedder.embed_documents(["tea"], timeout_s=TIMEOUT_S)
        assert endpoint.batches == [["tea"], ["d tea"]]

    def test_a_probe_tells_where_vectors_come_from(self, endpoint, embedder_for):
        model = embedder_for(endpoint).probe(timeout_s=TIMEOUT_S)
        assert model.name == "nomic-embed-text"
        assert model.dimension == 4
        assert model.query_prefix == "search_query: "
        assert model.document_prefix == "search_document: "

    def test_a_second_probe_asks_nobody(self, endpoint, embedder):
        embedder.probe(timeout_s=TIMEOUT_S)
        embedder.probe(timeout_s=TIMEOUT_S)
        assert len(endpoint.requests) == 1

    def test_vectors_have_length_one(self, embedder):
        vector = embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        assert math.hypot(*vector) == pytest.approx(1.0)

    def test_broken_unicode_travels_as_valid_utf8(self, endpoint, embedder):
        texts = ["a\udc97b", "\ud83c\udf78"]
        embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert endpoint.batches == [["a\ufffdb", "🍸"]]

    def test_a_batch_is_one_request_in_order(self, endpoint, embedder):
        texts = [f"text {i}" for i in range(100)]
        vectors = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert endpoint.batches == [texts]
        assert vectors[7] == embedder.embed_query("text 7", timeout_s=TIMEOUT_S)

    def test_nothing_to_embed_asks_nobody(self, endpoint, embedder):
        assert embedder.embed_documents([], timeout_s=TIMEOUT_S) == []
        assert endpoint.requests == []

    def test_a_blank_text_is_refused_without_being_sent(self, endpoint, embedder):
        blank, tea = embedder.embed_documents([" \n", "tea"], timeout_s=TIMEOUT_S)
        assert isinstance(blank, UnembeddableText)
        assert isinstance(tea, list)
        assert endpoint.batches == [["tea"]]
        with pytest.raises(UnembeddableText):
            embedder.embed_query("", timeout_s=TIMEOUT_S)

    def test_of_a_very_long_query_both_ends_are_asked(self, endpoint, embedder):
        embedder.embed_query("first" + "x" * 9000 + "last", timeout_s=TIMEOUT_S)
        ((query,),) = endpoint.batches
        assert query.startswith("first")
        assert query.endswith("last")
        assert len(query) < 2100


class TestKeys:
    def test_the_key_comes_from_the_named_variable_at_each_request(
        self, endpoint, embedder_for, monkeypatch
    ):
        embedder = embedder_for(endpoint, embed_api_key_env="MY_KEY")
        for key in ("one", "two\n"):
            monkeypatch.setenv("MY_KEY", key)
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        seen = [request.headers["Authorization"] for request in endpoint.requests]
        assert seen == ["Bearer one", "Bearer two"]

    def test_without_a_variable_no_key_is_sent(self, endpoint, embedder):
        embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        assert "Authorization" not in endpoint.requests[0].headers

    def test_a_variable_that_is_not_set_is_named_when_it_matters(
        self, endpoint, embedder_for, monkeypatch
    ):
        monkeypatch.delenv("MY_KEY", raising=False)
        endpoint.answer = lambda _: error(401, "no")
        embedder = embedder_for(endpoint, embed_api_key_env="MY_KEY")
        with pytest.raises(EmbedderUnavailable, match="MY_KEY"):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)

    @pytest.mark.parametrize("key", ["s3cret\nX-Evil: 1", "s3crét"])
    def test_a_key_that_no_header_can_carry_is_not_quoted(
        self, endpoint, embedder_for, monkeypatch, key
    ):
        monkeypatch.setenv("MY_KEY", key)
        embedder = embedder_for(endpoint, embed_api_key_env="MY_KEY")
        with pytest.raises(EmbedderUnavailable, match="MY_KEY") as caught:
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        assert "s3cr" not in str(caught.value)
        assert endpoint.requests == []

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
    def test_no_error_holds_the_key_the_password_or_the_text(
        self, endpoint, embedder_for, monkeypatch, caplog, status
    ):
        caplog.set_level("DEBUG")
        monkeypatch.setenv("MY_KEY", "s3cret")
        endpoint.answer = lambda texts: error(status, f"{texts} s3cret pa55word")
        embedder = embedder_for(
            endpoint,
            embed_url="http://me:pa55word@embed.test",
            embed_api_key_env="MY_KEY",
        )
        with pytest.raises(EmbedderUnavailable) as caught:
            embedder.embed_documents(["my diary"], timeout_s=TIMEOUT_S)
        told = str(caught.value) + caplog.text
        assert "embed.test" in told
        assert str(status) in told
        assert not any(word in told for word in ("s3cret", "pa55word", "diary"))


class TestDetection:
    @staticmethod
    def only_ollama(status):
        def answer(request):
            if request.url.path != "/api/embed":
                return httpx.Response(status, text="nothing here")
            texts = sent(request)["input"]
            return httpx.Response(200, json={"embeddings": [[3, 4]] * len(texts)})

        return answer

    @pytest.mark.parametrize("status", [404, 405])
    def test_ollama_is_found_and_remembered(self, embedder_for, status):
        paths = []

        def answer(request):
            paths.append(request.url.path)
            return self.only_ollama(status)(request)

        embedder = embedder_for(answer)
        for _ in range(2):
            assert embedder.embed_query("tea", timeout_s=TIMEOUT_S) == [0.6, 0.8]
        assert paths == ["/v1/embeddings", "/api/embed", "/api/embed"]

    def test_a_server_that_was_replaced_is_found_again(self, endpoint, embedder_for):
        replaced = []

        def answer(request):
            if not replaced:
                return self.only_ollama(404)(request)
            if request.url.path == "/v1/embeddings":
                return endpoint(request)
            return httpx.Response(404)

        embedder = embedder_for(answer)
        embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        replaced.append(True)
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        # Two dimensions before, four now: the answer came, and is not trusted.
        with pytest.raises(DimensionMismatch):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)

    def test_an_unknown_model_is_told_from_an_unknown_path(self, embedder_for):
        def answer(request):
            if request.url.path == "/api/embed":
                return httpx.Response(404, json={"error": 'model "x" not found'})
            return httpx.Response(404, text="404 page not found")

        embedder = embedder_for(answer, embed_model="x")
        with pytest.raises(EmbedderUnavailable, match="no model 'x'"):
            embedder.probe(timeout_s=TIMEOUT_S)

    def test_a_named_protocol_is_not_second_guessed(self, embedder_for):
        embedder = embedder_for(self.only_ollama(404), embed_protocol="openai")
        with pytest.raises(EmbedderUnavailable, match="embed_url"):
            embedder.probe(timeout_s=TIMEOUT_S)


class TestIncompleteAnswers:
    def test_what_an_answer_leaves_out_is_asked_for_singly(self, endpoint, embedder):
        def forgetful(texts):
            reply = json.loads(endpoint.embed(texts).content)
            if len(texts) > 1:
                del reply["data"][1]
            return httpx.Response(200, json=reply)

        endpoint.answer = forgetful
        vectors = embedder.embed_documents(["a", "bb", "ccc"], timeout_s=TIMEOUT_S)
        assert endpoint.batches == [["a", "bb", "ccc"], ["bb"]]
        assert vectors[1] == embedder.embed_query("bb", timeout_s=TIMEOUT_S)

    def test_an_endpoint_that_confuses_batches_is_asked_singly_from_then_on(
        self, endpoint, embedder
    ):
        def confused(texts):
            vector = json.loads(endpoint.embed(texts).content)["data"][0]
            return httpx.Response(200, json={"data": [vector] * len(texts)})

        endpoint.answer = confused
        texts = ["a", "bb", "ccc"]
        first = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        second = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert first == second
        assert all(isinstance(vector, list) for vector in first)
        assert [len(batch) for batch in endpoint.batches] == [3, 1, 1, 1, 1, 1, 1]

    def test_a_text_that_never_gets_a_vector_is_given_up(self, endpoint, embedder):
        def blind(texts):
            reply = json.loads(endpoint.embed(texts).content)
            kept = [row for row in reply["data"] if texts[row["index"]] != "bad"]
            return httpx.Response(200, json={"data": kept})

        endpoint.answer = blind
        good, bad, fine = embedder.embed_documents(
            ["good", "bad", "fine"], timeout_s=TIMEOUT_S
        )
        assert isinstance(bad, UnembeddableText)
        assert isinstance(good, list)
        assert isinstance(fine, list)


class TestPoisonedTexts:
    @pytest.mark.parametrize(
        "refusal",
        [
            error(500, "failed to encode response: json: unsupported value: NaN"),
            error(500, ""),
            error(400, "invalid input"),
            error(422, "bad"),
            httpx.Response(200, content=b""),
            httpx.Response(200, content=b'{"data":[{"index":0,"emb'),
            httpx.Response(200, json={"error": {"message": "failed"}}),
        ],
        ids=["nan", "500", "400", "422", "empty", "torn", "error in 200"],
    )
    def test_they_are_found_and_the_others_embedded(self, endpoint, embedder, refusal):
        poison = {3, 12}
        texts = [f"bad {i}" if i in poison else f"good {i}" for i in range(16)]

        def answer(batch):
            if any(text.startswith("bad") for text in batch):
                return refusal
            return endpoint.embed(batch)

        endpoint.answer = answer
        outcomes = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        refused = {
            i for i, item in enumerate(outcomes) if isinstance(item, UnembeddableText)
        }
        assert refused == poison
        assert outcomes[5] == embedder.embed_query("good 5", timeout_s=TIMEOUT_S)
        assert not any("bad" in str(outcomes[i]) for i in poison)

    def test_a_batch_is_not_smaller_afterwards(self, endpoint, embedder):
        endpoint.answer = lambda batch: (
            error(400, "") if "bad" in batch else endpoint.embed(batch)
        )
        embedder.embed_documents(["bad", *("abcdefg")], timeout_s=TIMEOUT_S)
        embedder.embed_documents("abcdefgh", timeout_s=TIMEOUT_S)
        assert len(endpoint.batches[-1]) == 8

    def test_nan_in_one_vector_costs_that_text_only(self, endpoint, embedder):
        body = (
            b'{"data":[{"index":0,"embedding":[NaN,1,2,3]},'
            b'{"index":1,"embedding":[1,0,0,0]}]}'
        )
        endpoint.answer = lambda _: httpx.Response(200, content=body)
        bad, good = embedder.embed_documents(["bad", "good"], timeout_s=TIMEOUT_S)
        assert isinstance(bad, UnembeddableText)
        assert good == [1, 0, 0, 0]

    def test_a_hiccup_is_not_taken_for_poison(self, endpoint, embedder):
        answers = [error(500, "oops")]
        endpoint.answer = lambda batch: (
            answers.pop() if answers else endpoint.embed(batch)
        )
        (vector,) = embedder.embed_documents(["tea"], timeout_s=TIMEOUT_S)
        assert isinstance(vector, list)


class TestBrokenEndpoints:
    @pytest.mark.parametrize(
        "reply",
        [
            error(500, "NaN"),
            error(400, "model does not support embeddings"),
            error(400, "the input length exceeds the context length"),
            httpx.Response(200, json={"data": None}),
            httpx.Response(200, json={"data": []}),
            httpx.Response(200, text="<html>"),
            httpx.Response(
                200, json={"data": [{"index": 0, "embedding": [0, 0, 0, 0]}]}
            ),
        ],
        ids=["500", "400", "length", "null", "nothing", "page", "zeros"],
    )
    def test_no_text_is_blamed_when_nothing_can_be_embedded(
        self, endpoint, embedder, reply
    ):
        endpoint.answer = lambda _: reply
        for texts in (["tea"], ["tea", "coffee", "milk"]):
            with pytest.raises(EmbedderUnavailable):
                embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        with pytest.raises(EmbedderUnavailable):
            embedder.probe(timeout_s=TIMEOUT_S)

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_an_overloaded_one_is_left_alone_at_once(self, endpoint, embedder, status):
        endpoint.answer = lambda _: httpx.Response(status, headers={"Retry-After": "7"})
        with pytest.raises(EmbedderUnavailable) as caught:
            embedder.embed_documents(["a", "b", "c"], timeout_s=TIMEOUT_S)
        assert caught.value.retry_after_s == 7.0
        assert len(endpoint.requests) == 1

    @pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
    def test_a_query_is_one_attempt(self, endpoint, embedder_for, status):
        embedder = embedder_for(endpoint, embed_protocol="openai")
        embedder.probe(timeout_s=TIMEOUT_S)
        endpoint.answer = lambda _: error(status, "no")
        endpoint.requests.clear()
        with pytest.raises((EmbedderUnavailable, UnembeddableText)):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        assert len(endpoint.requests) == 1

    def test_a_query_is_blamed_only_where_others_were_embedded(
        self, endpoint, embedder
    ):
        endpoint.answer = lambda _: error(400, "no")
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        endpoint.answer = endpoint.embed
        embedder.probe(timeout_s=TIMEOUT_S)
        endpoint.answer = lambda _: error(400, "no")
        with pytest.raises(UnembeddableText):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)

    def test_after_close_nobody_is_asked(self, endpoint, embedder):
        embedder.close()
        with pytest.raises(EmbedderUnavailable, match="closed"):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        assert endpoint.requests == []


class TestBatchSizes:
    def test_a_size_that_is_refused_is_learned(self, endpoint, embedder):
        endpoint.answer = lambda batch: (
            error(422, f"batch size {len(batch)} > maximum allowed batch size 8")
            if len(batch) > 8
            else endpoint.embed(batch)
        )
        texts = [f"text {i}" for i in range(64)]
        vectors = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert all(isinstance(vector, list) for vector in vectors)
        endpoint.requests.clear()
        again = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert again == vectors
        assert [len(batch) for batch in endpoint.batches] == [8] * 8

    def test_a_slow_batch_is_smaller_next_time_and_grows_again(
        self, endpoint, embedder
    ):
        most = [2]

        def answer(batch):
            if len(batch) > most[0]:
                raise httpx.ReadTimeout("slow")
            return endpoint.embed(batch)

        endpoint.answer = answer
        texts = [f"text {i}" for i in range(8)]
        for _ in range(2):
            with pytest.raises(EmbedderUnavailable):
                embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        most[0] = 8
        for _ in range(3):
            embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        sizes = [len(batch) for batch in endpoint.batches]
        assert sizes == [8, 4, 2, 4, 2, 8, 8]


class TestLongTexts:
    @pytest.mark.parametrize("status", [400, 413, 500])
    def test_a_long_text_is_halved_until_it_is_accepted(
        self, endpoint, embedder, status
    ):
        endpoint.answer = lambda batch: (
            error(status, "the input length exceeds the context length")
            if any(len(text) > 2048 for text in batch)
            else endpoint.embed(batch)
        )
        texts = ["short", "汉" * 6000, "also short"]
        vectors = embedder.embed_documents(texts, timeout_s=TIMEOUT_S)
        assert all(isinstance(vector, list) for vector in vectors)
        assert vectors[1] == embedder.embed_query("汉" * 1500, timeout_s=TIMEOUT_S)

    def test_the_prefix_survives_the_halving(self, endpoint, embedder_for):
        endpoint.answer = lambda batch: (
            error(400, "too long") if len(batch[0]) > 100 else endpoint.embed(batch)
        )
        embedder = embedder_for(endpoint)
        embedder.embed_documents(["x" * 300], timeout_s=TIMEOUT_S)
        assert all(
            batch[0].startswith("search_document: x") for batch in endpoint.batches
        )

    def test_a_text_that_is_too_long_at_any_length_is_given_up(
        self, endpoint, embedder
    ):
        endpoint.answer = lambda batch: (
            error(400, "too long") if "z" in batch[0] else endpoint.embed(batch)
        )
        (outcome,) = embedder.embed_documents(["z" * 5000], timeout_s=TIMEOUT_S)
        assert isinstance(outcome, UnembeddableText)
        assert len(endpoint.requests) < 12


class TestDimensions:
    @staticmethod
    def of(dimension):
        return lambda batch: httpx.Response(
            200, json={"embeddings": [[1.0] * dimension] * len(batch)}
        )

    def test_a_change_in_mid_run_names_both_and_returns_nothing(
        self, endpoint, embedder
    ):
        endpoint.answer = self.of(768)
        embedder.probe(timeout_s=TIMEOUT_S)
        endpoint.answer = self.of(192)
        with pytest.raises(DimensionMismatch) as caught:
            embedder.embed_documents(["a", "b"], timeout_s=TIMEOUT_S)
        assert (caught.value.expected, caught.value.got) == (768, 192)
        with pytest.raises(DimensionMismatch):
            embedder.embed_query("a", timeout_s=TIMEOUT_S)

    def test_a_change_within_one_answer_is_seen(self, endpoint, embedder):
        endpoint.answer = lambda _: httpx.Response(
            200, json={"embeddings": [[1.0, 2.0], [1.0, 2.0, 3.0]]}
        )
        with pytest.raises(DimensionMismatch):
            embedder.embed_documents(["a", "b"], timeout_s=TIMEOUT_S)

    def test_a_probe_after_a_change_learns_the_new_one(self, endpoint, embedder):
        endpoint.answer = self.of(192)
        embedder.probe(timeout_s=TIMEOUT_S)
        endpoint.answer = self.of(768)
        with pytest.raises(DimensionMismatch):
            embedder.embed_query("a", timeout_s=TIMEOUT_S)
        assert embedder.probe(timeout_s=TIMEOUT_S).dimension == 768
        assert len(embedder.embed_query("a", timeout_s=TIMEOUT_S)) == 768


class TestSettings:
    def test_a_bad_url_is_a_config_error(self):
        with pytest.raises(ConfigError) as caught:
            make_embedder(Settings(embed_url="localhost:11434"))
        assert list(caught.value.problems) == ["plugins.pgvector.embed_url"]

    def test_the_local_model_cannot_be_another_one(self):
        with pytest.raises(ConfigError) as caught:
            make_embedder(
                Settings(embed_model="nomic-embed-text", embed_query_prefix="q: ")
            )
        assert sorted(caught.value.problems) == [
            "plugins.pgvector.embed_model",
            "plugins.pgvector.embed_query_prefix",
        ]

    def test_the_local_model_may_be_named(self):
        embedder = make_embedder(Settings(embed_model="multilingual-e5-small-q4"))
        assert embedder.name == "multilingual-e5-small-q4"
        embedder.close()


class TestEncoding:
    """Vectors come as floats until an endpoint is seen to speak base64."""

    TWO = ("one", "two")

    def spoken(self, endpoint):
        return [sent(request)["encoding_format"] for request in endpoint.requests]

    def in_base64(self, endpoint, texts):
        """What the endpoint says, with each vector in base64."""
        reply = endpoint.embed(texts).json()
        for item in reply["data"]:
            numbers = item["embedding"]
            packed = struct.pack(f"<{len(numbers)}f", *numbers)
            item["embedding"] = base64.b64encode(packed).decode()
        return reply

    def test_an_endpoint_that_speaks_base64_is_asked_for_it(self, endpoint, embedder):
        floats = embedder.embed_documents(self.TWO, timeout_s=TIMEOUT_S)
        endpoint.answer = lambda texts: httpx.Response(
            200, json=self.in_base64(endpoint, texts)
        )
        for _ in range(2):
            packed = embedder.embed_documents(self.TWO, timeout_s=TIMEOUT_S)
            assert packed == [pytest.approx(vector, abs=1e-6) for vector in floats]
        assert self.spoken(endpoint) == ["float", "base64", "base64"]

    def test_one_that_refuses_it_is_asked_once(self, endpoint, embedder):
        def picky(texts):
            if self.spoken(endpoint)[-1] == "base64":
                return httpx.Response(400, json={"error": "encoding_format"})
            return endpoint.embed(texts)

        endpoint.answer = picky
        for _ in range(3):
            assert len(embedder.embed_documents(self.TWO, timeout_s=TIMEOUT_S)) == 2
        assert self.spoken(endpoint) == ["float", "base64", "float", "float"]

    def test_one_that_ignores_it_is_understood(self, endpoint, embedder):
        first = embedder.embed_documents(self.TWO, timeout_s=TIMEOUT_S)
        assert embedder.embed_documents(self.TWO, timeout_s=TIMEOUT_S) == first

    def test_texts_that_are_refused_either_way_teach_nothing(self, endpoint, embedder):
        embedder.embed_documents(self.TWO, timeout_s=TIMEOUT_S)

        def strict(texts):
            if "bad" in texts:
                return httpx.Response(400, json={"error": "no"})
            return endpoint.embed(texts)

        endpoint.answer = strict
        good, bad = embedder.embed_documents(["good", "bad"], timeout_s=TIMEOUT_S)
        assert isinstance(bad, UnembeddableText)
        assert good == pytest.approx(embedder.embed_query("good", timeout_s=TIMEOUT_S))
        endpoint.requests.clear()
        embedder.embed_documents(self.TWO, timeout_s=TIMEOUT_S)
        assert self.spoken(endpoint) == ["base64"]

    def test_a_question_is_one_attempt(self, endpoint, embedder):
        for _ in range(3):
            embedder.embed_query("tea", timeout_s=TIMEOUT_S)
        assert self.spoken(endpoint) == ["float"] * 3
