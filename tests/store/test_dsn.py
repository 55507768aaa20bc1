from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.store import Store, dsn

SPECIAL = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~é🦔"
PASSWORD = f"s3{SPECIAL}cret"
FORMS = {
    "uri": f"postgresql://hermes:{quote(PASSWORD, safe='')}@db:5432/memory",
    "uri, lower case": "postgres://hermes:"
    + quote(PASSWORD, safe="").lower()
    + "@db/m",
    "uri, parameter": f"postgresql://db/memory?user=hermes&password={quote(PASSWORD)}",
    "uri, two hosts": f"postgresql://hermes:{quote(PASSWORD, safe='')}@h1:1,h2:2/m",
    "words": make_conninfo(host="db", user="hermes", password=PASSWORD),
    "words, spaced": "password = "
    + make_conninfo(user=PASSWORD)[5:]
    + "  user = hermes",
    "key file": make_conninfo(host="db", user="hermes", sslpassword=PASSWORD),
}
# Cut in the wrong place by an unescaped character, or no connection string at all.
BROKEN = {
    "at": "postgresql://hermes:s3@cret@db/memory",
    "slash": "postgresql://hermes:s3/cret@db/memory",
    "slash, then port": "postgresql://hermes:77/cret@db/memory",
    "percent": "postgresql://hermes:s3%cret@db/memory",
    "space": "postgresql://hermes:s3 cret@db/memory",
    "unquoted": "host=db password=s3 cret user=hermes",
    "open quote": "host=db password='s3 cret",
    "port": "host=db port=s3cret",
    "nothing": "s3cret",
    "surrogate": "host=db password=s3\udc97cret",
    "nul": "host=db password=s3\x00cret",
}
words = st.text(st.characters(codec="utf-8", exclude_characters="\0*"), min_size=1)


class TestRedaction:
    @pytest.mark.parametrize("form", FORMS)
    def test_no_form_of_the_password_survives(self, form):
        text = FORMS[form]
        clean = dsn.parse(text).redact(
            f"cannot reach {text} ({text!r}, {json.dumps(text)}, {PASSWORD},"
            f" {PASSWORD!r}, {json.dumps(PASSWORD)}, {quote(PASSWORD)})"
        )
        for trace in ("s3", "cret"):
            assert trace not in clean

    def test_the_password_alone_is_known_however_it_is_encoded(self):
        upper = quote(PASSWORD, safe="")
        lower = re.sub(r"%..", lambda code: code[0].lower(), upper)
        assert lower != upper
        needless = "s3%20%63ret"
        assert dsn.parse(f"postgresql://u:{upper}@db").redact(f"<{lower}>") == "<***>"
        assert dsn.parse(f"postgresql://u:{lower}@db").redact(f"<{upper}>") == "<***>"
        for text in (
            f"postgres://u:{needless}@db",
            f"postgres:///?password={needless}",
        ):
            assert dsn.parse(text).redact(f"<{needless}> <s3 cret>") == "<***> <***>"

    def test_leaves_the_rest_readable(self):
        target = dsn.parse("host=db user=hermes password=s3cret")
        why = 'password authentication failed for user "hermes"'
        assert target.redact(why) == why

    def test_blanks_the_whole_string_only_where_it_holds_a_secret(self):
        assert dsn.parse("host=db").redact("host=db") == "host=db"
        assert dsn.parse("host=db password=x y=z".removesuffix(" y=z"))

    @given(words)
    def test_any_password_is_blanked_in_either_form(self, password):
        uri = f"postgresql://hermes:{quote(password, safe='')}@db/memory"
        plain = make_conninfo(user="hermes", host="db", password=password)
        for text in (uri, plain):
            redact = dsn.parse(text).redact
            assert password not in redact(f"FATAL <{password}> {text} {password!r}")

    def test_a_dsn_does_not_show_itself(self):
        assert "s3" not in repr(dsn.parse("password=s3cret"))


class TestRefusal:
    @pytest.mark.parametrize("kind", BROKEN)
    def test_names_the_setting_and_quotes_nothing(self, kind):
        with pytest.raises(ConfigError) as refused:
            Store(BROKEN[kind])
        assert list(refused.value.problems) == ["plugins.pgvector.dsn"]
        told = f"{refused.value} {refused.value!r} {refused.value.__context__}"
        for trace in ("s3", "cret", "77", "memory"):
            assert trace not in told
        assert refused.value.__suppress_context__ or not refused.value.__context__

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "host=/tmp dbname=memory",
            "postgresql:///memory?host=/tmp",
            "postgresql://%2Ftmp%2Fx/memory",
            "postgresql://[::1]:5432/memory",
            "postgresql://u@h1:1,h2,h3:3/m?target_session_attrs=read-write",
            "service=memory",
            "host=db password=x://a@b@c/d@e",
        ],
    )
    def test_spares_every_sound_form(self, text):
        Store(text).close()


def test_defaults_yield_to_the_string():
    assert dsn.parse("host=db").parameters == {
        "application_name": "hermes-pgmemory",
        "connect_timeout": "3",
    }
    given = "host=db application_name=mine connect_timeout=9"
    assert dsn.parse(given).parameters == {}
