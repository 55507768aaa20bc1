from __future__ import annotations

import pytest

from hermes_pgmemory.store.queries import QUERIES, parse


class TestParse:
    def test_splits_a_file_into_statements(self):
        text = "-- :name one\n-- About one.\nSELECT 1;\n\n-- :name two\nSELECT\n2;\n"
        assert parse(text) == ({"one": "SELECT 1;", "two": "SELECT\n2;"}, {})

    def test_fills_fragments_in(self):
        text = (
            "-- :fragment mine\n-- Whose.\na = 1\n"
            "-- :fragment both\n{mine} AND b = 2\n"
            "-- :name all\nSELECT '{}' WHERE {both};\n"
        )
        assert parse(text) == (
            {"all": "SELECT '{}' WHERE a = 1 AND b = 2;"},
            {"mine": "a = 1", "both": "a = 1 AND b = 2"},
        )

    def test_refuses_a_name_used_twice(self):
        with pytest.raises(ValueError, match="'one' is defined twice"):
            parse("-- :name one\nSELECT 1;\n-- :fragment one\nx\n")

    def test_refuses_an_unknown_fragment(self):
        with pytest.raises(ValueError, match="no fragment 'mine'"):
            parse("-- :name one\nSELECT {mine};\n-- :fragment mine\nx\n")


def test_every_statement_is_one_statement():
    ddl = {
        *("create_ledger", "grant_to_runtime_role"),
        *("lock_original", "set_aside", "strip_original", "seal_original"),
        *("continue_ids", "begin_conversion", "guard_conversion", "prove_conversion"),
        *("finish_conversion", "begin_reembed", "switch_reembed"),
        *("abort_reembed", "drop_old_vectors"),
    }
    for name, statement in QUERIES.items():
        assert statement.endswith(";"), name
        assert "--" not in statement, name
        assert name in ddl or statement.count(";") == 1, name
