"""TLS whose certificate is verified, and passwords of every shape; neither leaks."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from middlemen_kit import (
    ADMIN,
    Home,
    Pooler,
    add,
    contents,
    eventually,
    program,
    recall,
)
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from command_kit import Ran

PASSWORD = "kE9@:/?#%&=+ '\"\\é🦔ß;,$(){}[]<>|*~^`!-_.xQ4"
WRONG = PASSWORD[::-1]
EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@dataclass(frozen=True)
class Certificates:
    """A certificate authority, what it vouches for, and one that does not."""

    folder: Path

    def make(self) -> Certificates:
        for name in ("ca", "stranger"):
            self._openssl(
                *["req", "-x509", *EC, "-days", "2", "-subj", f"/CN={name}"],
                *["-keyout", f"{name}.key", "-out", f"{name}.pem"],
            )
        (self.folder / "names").write_text("subjectAltName = DNS:localhost\n")
        request = ["-keyout", "server.key", "-out", "server.csr"]
        self._openssl("req", *EC, "-subj", "/CN=localhost", *request)
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
        self._openssl(
            *["x509", "-req", "-in", "server.csr", *signing, "-days", "2"],
            *["-extfile", "names", "-out", "server.pem"],
        )
        return self

    def _openssl(self, *words: str) -> None:
        command = [program("openssl"), *words]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def path(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates")).make()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def _user(name: str, password: str) -> str:
    doubled = password.replace('"', '""')
    return f'"{name}" "{doubled}"\n'


@pytest.fixture(scope="module")
def tls_pooler(
    servers: Any, server: str, certificates: Certificates
) -> Iterator[Pooler]:
    """A PgBouncer that takes encrypted connections only, and asks for passwords."""
    users = [_user("hermes", PASSWORD), _user(ADMIN["user"], ADMIN["password"])]
    # The test server's own administrator, by a way that needs no password.
    pooler = Pooler(
        servers,
        server,
        files={
            "server.pem": certificates.text("server.pem"),
            "server.key": certificates.text("server.key"),
            "users": "".join(users),
        },
        listen_addr="127.0.0.1",
        listen_port=free_port(),
        auth_type="scram-sha-256",
        auth_file="{folder}/users",
        client_tls_sslmode="require",
        client_tls_cert_file="{folder}/server.pem",
        client_tls_key_file="{folder}/server.key",
    )
    yield pooler
    pooler.kill()


@dataclass(frozen=True)
class Way:
    """How to the test's database, by the encrypted way."""

    direct: str
    port: int
    certificates: Certificates

    def words(self, **more: Any) -> dict[str, Any]:
        return {
            "host": "localhost",
            "port": self.port,
            "user": "hermes",
            "password": PASSWORD,
            "dbname": conninfo_to_dict(self.direct)["dbname"],
            "sslmode": "verify-full",
            "sslrootcert": self.certificates.path("ca.pem"),
        } | more

    def pairs(self, **more: Any) -> str:
        """Return the connection string as `key=value` pairs."""
        return make_conninfo(**self.words(**more))

    def url(self, **more: Any) -> str:
        """Return the connection string as a URL."""
        given = {k: quote(str(v), safe="") for k, v in self.words(**more).items()}
        place = "{user}:{password}@{host}:{port}/{dbname}".format(**given)
        options = "sslmode={sslmode}&sslrootcert={sslrootcert}".format(**given)
        return f"postgresql://{place}?{options}"


@pytest.fixture
def way(
    tls_pooler: Pooler, dsn_of: Callable[[int], str], certificates: Certificates
) -> Way:
    port = tls_pooler.settings["listen_port"]
    return Way(dsn_of(384), int(str(port)), certificates)


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a test does, none of its secrets is in any log of the process."""
    caplog.set_level(logging.DEBUG)
    yield
    assert_secret(caplog.text)


def assert_secret(text: str) -> None:
    for password in (PASSWORD, WRONG):
        halves = [password[:9], password[-9:]]
        forms = [
            form(word)
            for word in [password, *halves]
            for form in (str, repr, json.dumps, quote, quote_plus)
        ]
        found = [form for form in forms if form.strip("'\"") in text]
        assert not found, text


FORMS = pytest.mark.parametrize("form", [Way.url, Way.pairs], ids=["url", "pairs"])


@FORMS
def test_every_character_of_a_password_arrives(
    home: Home, run: Callable[..., Ran], way: Way, tls_pooler: Pooler, form
):
    home.configure(dsn=form(way), embed_on_write=False)
    agent = home.agent("marketing")
    add(agent, "The printer is on floor 2.")
    eventually(lambda: contents(way.direct) == ["The printer is on floor 2."])
    assert recall(agent, "printer")[0] == ["The printer is on floor 2."]
    encrypted = [
        row for row in tls_pooler.admin("SHOW CLIENTS") if "TLSv1.3" in str(row)
    ]
    assert encrypted
    for words in (["status"], ["config"], ["stats"], ["replay"], ["migrate"]):
        for shape in ([], ["--json"]):
            ran = run(*words, *shape)
            assert ran.status == 0 or words == ["migrate"], ran.err
            assert_secret(ran.out + ran.err)


@dataclass(frozen=True)
class Fault:
    """A connection string that cannot work, and what is said of it."""

    changes: dict[str, str]
    told: str


FAULTS = {
    "unknown authority": Fault(
        {"sslrootcert": "stranger.pem"}, "certificate verify failed"
    ),
    "missing authority": Fault({"sslrootcert": "none.pem"}, "none.pem"),
    "another host's certificate": Fault(
        {"host": "127.0.0.1"}, 'does not match host name "127.0.0.1"'
    ),
    "no encryption": Fault({"sslmode": "disable"}, "SSL required"),
    "wrong password": Fault({"password": WRONG}, "SASL authentication failed"),
}


@FORMS
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_one_clear_line(
    home: Home,
    run: Callable[..., Ran],
    way: Way,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    fault: str,
    form,
):
    changes = FAULTS[fault].changes
    if name := changes.get("sslrootcert"):
        changes = {**changes, "sslrootcert": certificates.path(name)}
    home.configure(dsn=form(way, **changes), embed_on_write=False)
    agent = home.agent("marketing")
    add(agent, "kept")
    eventually(lambda: agent._engine.writer.outage)
    told = [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]
    assert len(told) == 1
    assert FAULTS[fault].told in told[0]
    assert "plugins.pgvector.dsn" in told[0]
    assert "\n" not in told[0]
    assert agent._engine.journal_depth
    found, degraded = recall(agent, "kept")
    assert found == []
    assert degraded is not None
    assert FAULTS[fault].told in degraded
    ran = run("status", "--json")
    assert FAULTS[fault].told in ran.data["parts"]["database"]["detail"]
    stats = run("stats")
    assert stats.status == 3
    assert len(stats.err.splitlines()) == 1
    assert_secret("".join([*told, degraded, ran.out, ran.err, stats.out, stats.err]))
