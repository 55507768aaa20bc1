from __future__ import annotations

import base64
import json
import math
import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.embed.urls import Dialect
from hermes_pgmemory.embed.wire import (
    MAX_RETRY_AFTER_S,
    Answer,
    BadVector,
    Refusal,
    clean,
    failure,
    parse_retry_after,
    read_answer,
    request_body,
    unit,
)
from hermes_pgmemory.errors import EmbedderUnavailable

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def read(body, count=1, status=200):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return read_answer(Answer(status, body), count, host="h", model="m")


def data(*pairs):
    return {"data": [{"index": i, "embedding": vector} for i, vector in pairs]}


class TestVectors:
    def test_a_vector_is_scaled_to_length_one(self):
        assert unit([3, 4.0]) == [0.6, 0.8]

    def test_base64_is_read_as_little_endian_floats(self):
        packed = base64.b64encode(struct.pack("<2f", 3.0, 4.0)).decode()
        assert unit(packed) == pytest.approx([0.6, 0.8])

    @pytest.mark.parametrize(
        "value",
        [
            None,
            [],
            {},
            "not base64!",
            "QUJD",  # three bytes are no float
            [1.0, None],
            [1.0, "2"],
            [1.0, True],
            [[1.0, 2.0]],
            [1.0, math.nan],
            [1.0, math.inf],
            [-math.inf, 1.0],
            [0.0, 0.0],
            [10**400, 1],
        ],
    )
    def test_what_is_no_finite_direction_is_refused(self, value):
        assert isinstance(unit(value), BadVector)

    @given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=8))
    def test_every_accepted_vector_has_length_one(self, values):
        vector = unit(values)
        if isinstance(vector, BadVector):
            assert math.hypot(*values) == 0.0
        else:
            assert math.hypot(*vector) == pytest.approx(1.0)


class TestMatching:
    def test_vectors_find_their_texts_by_index(self):
        items = read(data((2, [0, 0, 1]), (0, [1, 0, 0]), (1, [0, 1, 0])), 3)
        assert items == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]

    def test_a_missing_index_leaves_a_gap(self):
        assert read(data((0, [1, 0]), (2, [0, 1])), 3) == [[1, 0], None, [0, 1]]

    @pytest.mark.parametrize(
        "indexes",
        [(0, 0), (1, 1), (0, 1, 1), (1, 2), (1, 2, 3), (0, 1, 3), (0, 1, "2")],
    )
    def test_indexes_that_cannot_all_be_right_are_not_believed_at_all(self, indexes):
        vectors = ([1, 0], [0, 1], [1, 1])
        pairs = zip(indexes, vectors, strict=False)
        assert read(data(*pairs), 3) == [None, None, None]

    @pytest.mark.parametrize("index", [0, 1, 7, None])
    def test_the_only_vector_is_the_only_texts(self, index):
        assert read(data((index, [1, 0])), 1) == [[1, 0]]

    @pytest.mark.parametrize("index", [-1, 7, "0", True, None, 0.0])
    def test_an_index_that_is_none_of_ours_is_ignored(self, index):
        assert read(data((index, [1, 0])), 2) == [None, None]

    def test_without_any_index_the_order_counts(self):
        body = {"data": [{"embedding": [1, 0]}, {"embedding": [0, 1]}]}
        assert read(body, 2) == [[1, 0], [0, 1]]

    def test_without_any_index_too_few_match_nothing(self):
        assert read({"data": [{"embedding": [1, 0]}]}, 2) == [None, None]

    def test_ollama_answers_by_position(self):
        assert read({"embeddings": [[1, 0], [0, 2]]}, 2) == [[1, 0], [0, 1]]
        assert read({"embeddings": [[1, 0]]}, 2) == [None, None]

    def test_nan_spoils_one_vector_only(self):
        body = (
            b'{"data":[{"index":0,"embedding":[NaN,1]},{"index":1,"embedding":[1,0]}]}'
        )
        spoilt, good = read(body, 2)
        assert isinstance(spoilt, BadVector)
        assert good == [1, 0]


class TestGarbledSuccess:
    @pytest.mark.parametrize(
        ("body", "cause"),
        [
            (b"", "empty body"),
            (b"  \n", "empty body"),
            (b"<!doctype html><p>Sign in", "web page"),
            (b'{"data":[{"index":0,"embed', "broken JSON"),
            (b"\xff\xfe", "broken JSON"),
            (b"[" * 200_000, "broken JSON"),
            (b'{"data":null}', "without a list"),
            (b'{"data":{}}', "without a list"),
            (b"null", "without a list"),
            (b"[]", "without a list"),
            (b"7", "without a list"),
            (b"{}", "without a list"),
        ],
    )
    def test_it_is_told_in_one_line_and_may_be_the_endpoints_fault(self, body, cause):
        with pytest.raises(Refusal) as caught:
            read(body)
        assert cause in caught.value.reason
        assert "\n" not in caught.value.reason
        assert not caught.value.blames_input

    def test_an_error_inside_a_success_counts_as_what_it_says(self):
        with pytest.raises(EmbedderUnavailable, match="429"):
            read({"error": {"message": "slow down", "code": 429}})
        with pytest.raises(Refusal) as caught:
            read({"error": {"message": "maximum context length is 512", "code": 400}})
        assert caught.value.too_long
        with pytest.raises(Refusal) as caught:
            read({"error": "something"})
        assert not caught.value.blames_input

    @given(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(
                        ["data", "embedding", "embeddings", "index", "error"]
                    ),
                    inner,
                )
            ),
            max_leaves=20,
        ),
        st.integers(1, 3),
    )
    def test_no_answer_surprises_us(self, reply, count):
        try:
            items = read(reply, count)
        except (Refusal, EmbedderUnavailable):
            return
        assert len(items) == count


class TestStatus:
    @pytest.mark.parametrize("status", [402, 408, 409, 429, 502, 503, 504, 529])
    def test_trouble_is_worth_a_retry(self, status):
        error = failure(Answer(status, b"", 3.0), host="h", model="m")
        assert isinstance(error, EmbedderUnavailable)
        assert str(status) in str(error)
        assert error.retry_after_s == 3.0

    @pytest.mark.parametrize(
        ("status", "body", "key"),
        [
            (401, b"", "embed_api_key_env"),
            (403, b"", "embed_api_key_env"),
            (404, b"not found", "embed_url"),
            (404, b'{"error":"model \\"m\\" not found"}', "embed_model"),
            (405, b"", "embed_url"),
            (301, b"", "embed_url"),
            (308, b"", "embed_url"),
        ],
    )
    def test_an_operators_mistake_names_its_key_and_blames_no_text(
        self, status, body, key
    ):
        error = failure(Answer(status, body), host="h", model="m")
        assert isinstance(error, EmbedderUnavailable)
        assert f"plugins.pgvector.{key}" in str(error)

    @pytest.mark.parametrize(
        "said",
        [
            "the input length exceeds the context length",
            "This model's maximum context length is 8192 tokens, however you",
            "Input validation error: `inputs` must have less than 512 tokens. Given: 9",
            "input (992 tokens) is too large to process. increase the physical batch",
            "too many tokens: total number of tokens must be at most 2048",
            "Input is longer than the maximum number of tokens",
            "prompt is too long",
        ],
    )
    @pytest.mark.parametrize("status", [400, 422, 500])
    def test_a_complaint_of_length_is_understood(self, said, status):
        error = failure(Answer(status, said.encode()), host="h", model="m")
        assert isinstance(error, Refusal)
        assert error.too_long

    @pytest.mark.parametrize(
        "said",
        [
            "invalid API token",
            "failed to encode response: json: unsupported value: NaN",
            "model does not support embeddings",
            "",
        ],
    )
    def test_another_complaint_is_not_taken_for_one(self, said):
        error = failure(Answer(400, said.encode()), host="h", model="m")
        assert isinstance(error, Refusal)
        assert not error.too_long

    def test_too_large_an_entity_is_one_without_words(self):
        error = failure(Answer(413, b""), host="h", model="m")
        assert isinstance(error, Refusal)
        assert error.too_long

    @given(st.integers(100, 999).filter(lambda status: status != 200), st.binary())
    def test_what_the_endpoint_says_is_never_repeated(self, status, body):
        secret = b"my diary " + body
        error = failure(Answer(status, secret), host="h", model="m")
        assert "diary" not in str(error)
        assert "\n" not in str(error)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            (None, None),
            ("7", 7.0),
            (" 1.5 ", 1.5),
            ("-5", 0.0),
            ("1e99", MAX_RETRY_AFTER_S),
            ("inf", MAX_RETRY_AFTER_S),
            ("nan", None),
            ("soon", None),
            ("", None),
            ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
            ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
            ("Mon, 01 Mar 2100 11:00:00 GMT", MAX_RETRY_AFTER_S),
            ("Sun, 01 Mar 2026 12:00:30 -0000", 30.0),
            ("Sun, 99 Foo 2026 12:00:30 GMT", None),
        ],
    )
    def test_seconds_and_dates_become_a_sane_pause(self, header, seconds):
        assert parse_retry_after(header, now=NOW) == seconds

    @given(st.text())
    def test_no_header_surprises_us(self, header):
        pause = parse_retry_after(header, now=NOW)
        assert pause is None or 0.0 <= pause <= MAX_RETRY_AFTER_S


class TestRequests:
    def test_a_pair_of_surrogates_joins_and_a_lone_one_is_replaced(self):
        assert clean("\ud83c\udf78") == "🍸"
        assert clean("a\udc97b") == "a\ufffdb"
        assert clean("o\0er") == "o er"
        assert clean("schön 🍸") == "schön 🍸"

    @given(st.text(st.characters(exclude_categories=())))
    def test_any_text_becomes_valid_utf8(self, text):
        body = request_body(Dialect.OPENAI, "m", [clean(text)])
        assert len(json.loads(body.decode())["input"]) == 1

    def test_dimensions_are_never_asked_for(self):
        body = json.loads(request_body(Dialect.OPENAI, "m", ["x"]))
        assert body == {"model": "m", "input": ["x"], "encoding_format": "float"}

    def test_ollama_gets_only_what_it_knows(self):
        body = json.loads(request_body(Dialect.OLLAMA, "m", ["x"]))
        assert body == {"model": "m", "input": ["x"]}
