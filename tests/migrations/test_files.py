"""The shipped files, without a database."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest

from hermes_pgmemory.store import migrate

SHIPPED = migrate.shipped()
HEADER = re.compile(
    r"""-- (?P<number>\d{4})\ (?P<title>[a-z ]+)\n
        --\n
        --\ Adds:\ \ \ \ \S.*\n (--\ {10}\S.*\n)*
        --\ Why:\ \ \ \ \ \S.*\n (--\ {10}\S.*\n)*
        --\ Needs:\ \ \ \S.*\n (--\ {10}\S.*\n)*
        --\ Locks:\ \ \ \S.*\n (--\ {10}\S.*\n)*
        --\ Runtime:\ \S.*\n (--\ {10}\S.*\n)*
        --\ Undo:\ \ \ \ \S.*\n (--\ {10}\S.*\n)*
        \n""".replace("-- (?P", r"--\ (?P"),
    re.VERBOSE,
)


@pytest.mark.parametrize("migration", SHIPPED, ids=lambda m: m.version)
class TestEachMigration:
    def test_opens_with_the_fixed_header(self, migration):
        header = HEADER.match(migration.text)
        assert header, "Adds, Why, Needs, Locks, Runtime, Undo: see the others"
        name = f"{header['number']}_{header['title'].replace(' ', '_')}"
        assert name == migration.version

    def test_is_templated_by_the_dimension_alone(self, migration):
        templates = set(re.findall(r"(?<![:\w]):[a-z]\w*", migration.text))
        assert templates <= {":dimensions"}
        assert ":dimensions" not in migration.sql(768)

    def test_names_no_schema_so_that_the_search_path_decides(self, migration):
        assert "public." not in migration.text

    def test_has_a_checksum_that_ignores_line_endings(self, migration):
        dos = replace(migration, text=migration.text.replace("\n", "\r\n"))
        assert dos.checksum == migration.checksum
        edited = replace(migration, text=migration.text + "-- really\n")
        assert edited.checksum != migration.checksum


def test_the_numbers_have_no_gaps():
    numbers = [migration.version[:4] for migration in SHIPPED]
    assert numbers == [f"{n:04}" for n in range(1, len(SHIPPED) + 1)]


def test_every_file_of_the_folder_is_shipped():
    folder = files("hermes_pgmemory.store").joinpath("migrations")
    names = {f.name for f in folder.iterdir() if not f.name.startswith("__")}
    assert names == {f"{migration.version}.sql" for migration in SHIPPED}
