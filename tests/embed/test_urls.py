from __future__ import annotations

import pytest

from hermes_pgmemory.embed.urls import Dialect, parse_url
from hermes_pgmemory.errors import ConfigError


def urls(url, protocol="auto"):
    return [route.url for route in parse_url(url, protocol).routes]


class TestSpellings:
    @pytest.mark.parametrize(
        "spelling",
        [
            "http://localhost:11434",
            "http://localhost:11434/",
            " http://localhost:11434// ",
            "http://localhost:11434/v1",
            "http://localhost:11434/v1/",
            "http://localhost:11434/v1/embeddings",
            "http://localhost:11434/v1/embeddings/",
        ],
    )
    def test_every_spelling_of_one_server_means_the_same(self, spelling):
        assert urls(spelling) == [
            "http://localhost:11434/v1/embeddings",
            "http://localhost:11434/api/embed",
        ]

    @pytest.mark.parametrize("path", ["/api/embed", "/api/embed/", "/api/embeddings"])
    def test_an_ollama_path_is_asked_in_its_own_dialect_only(self, path):
        (route,) = parse_url(f"http://ollama:11434{path}", "auto").routes
        assert route.dialect is Dialect.OLLAMA
        assert route.url == "http://ollama:11434/api/embed"

    @pytest.mark.parametrize(
        ("url", "asked"),
        [
            ("https://api.example.com/v1", "https://api.example.com/v1/embeddings"),
            (
                "https://gw.example.com/team/v1",
                "https://gw.example.com/team/v1/embeddings",
            ),
            (
                "https://gw.example.com/team",
                "https://gw.example.com/team/v1/embeddings",
            ),
            (
                "https://g.example.com/v1beta/openai/",
                "https://g.example.com/v1beta/openai/embeddings",
            ),
            (
                "https://a.example.com/deployments/x/embeddings?api-version=1",
                "https://a.example.com/deployments/x/embeddings?api-version=1",
            ),
            ("http://[::1]:8080", "http://[::1]:8080/v1/embeddings"),
            (
                "http://[2001:db8::5]/v1",
                "http://[2001:db8::5]/v1/embeddings",
            ),
        ],
    )
    def test_the_operators_own_path_is_kept(self, url, asked):
        assert urls(url)[0] == asked

    def test_a_protocol_that_is_named_is_the_only_one_tried(self):
        assert urls("http://h/v1", "ollama") == ["http://h/api/embed"]
        assert urls("http://h/api/embed", "openai") == ["http://h/v1/embeddings"]


class TestSecrets:
    def test_a_password_goes_into_the_header_and_nowhere_else(self):
        address = parse_url("https://me:s3%20cret@h.example/v1", "auto")
        assert address.basic_auth == "Basic bWU6czMgY3JldA=="
        assert address.host == "h.example"
        assert "cret" not in repr(address)
        assert all("cret" not in route.url for route in address.routes)

    def test_a_bad_url_is_not_repeated(self):
        with pytest.raises(ConfigError) as caught:
            parse_url("ftp://me:s3cret@h", "auto")
        assert "s3cret" not in str(caught.value)


class TestLoopback:
    @pytest.mark.parametrize(
        "host",
        ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "0.0.0.0", "x.localhost"],
    )
    def test_this_host_is_recognised(self, host):
        assert parse_url(f"http://{host}:1", "auto").loopback

    @pytest.mark.parametrize("host", ["10.0.0.1", "localhost.example.com", "[2001::1]"])
    def test_another_host_is_not_taken_for_it(self, host):
        assert not parse_url(f"http://{host}:1", "auto").loopback


class TestRefusals:
    @pytest.mark.parametrize(
        "url",
        [
            "localhost:11434",
            "embed.example.com",
            "http://",
            "http:///v1",
            "http://:8080",
            "http://h:port",
            "http://h:99999",
            "http://h:0",
            "http://[::1",
            "http://a b/v1",
            "unix:///run/x.sock",
            "http://h/\x00",
        ],
    )
    def test_what_is_no_url_is_told_in_one_line_under_its_key(self, url):
        with pytest.raises(ConfigError) as caught:
            parse_url(url, "auto")
        assert list(caught.value.problems) == ["plugins.pgvector.embed_url"]
        assert "\n" not in str(caught.value)
