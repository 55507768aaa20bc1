"""Citus' rules for tables, held against the DDL as PostgreSQL parses it.

Pure: nothing here talks to a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pglast import ast, enums, parse_sql


def parse(text: str) -> list[ast.Node]:
    """Parse SQL with our placeholders; equal names become equal parameters."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}"

    text = text.replace(":dimensions", "3")
    bound = re.sub(r"%\((\w+)\)[sbt]", number, text)
    return [raw.stmt for raw in parse_sql(bound.replace("%%", "%") if names else bound)]


@dataclass
class Table:
    """What the rules ask of a table."""

    columns: dict[str, str] = field(default_factory=dict)
    """Name to type."""
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Each unique or primary key, or exclusion, and its columns."""
    references: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = field(
        default_factory=list
    )
    """Foreign keys: own columns, the other table, its columns."""
    not_null: set[str] = field(default_factory=set)
    identities: set[str] = field(default_factory=set)


@dataclass
class Catalog:
    """The tables that some DDL makes."""

    tables: dict[str, Table] = field(default_factory=dict)
    opaque: list[str] = field(default_factory=list)
    """What nothing can be said about: triggers, and blocks of code."""

    def apply(self, ddl: str) -> None:
        """Follow *ddl*, but for what the rules do not ask about."""
        for node in parse(ddl):
            self._apply(node)

    def _apply(self, node: ast.Node) -> None:
        match node:
            case ast.CreateStmt():
                self._define(node.relation, node.tableElts or ())
            case ast.AlterTableStmt():
                self._define(node.relation, [command.def_ for command in node.cmds])
            case ast.IndexStmt() if node.unique:
                columns = tuple(e.name or "" for e in node.indexParams)
                self.tables[node.relation.relname].keys[node.idxname] = columns
            case ast.DoStmt():
                body = next(a.arg.sval for a in node.args if a.defname == "as")
                if re.search(r"\b(UNIQUE|REFERENCES|TRIGGER|EXCLUDE)\b", body):
                    self.opaque.append("DO")
            case ast.CreateTrigStmt():
                self.opaque.append(f"trigger on {node.relation.relname}")
            case _:
                pass

    def _define(self, relation: ast.RangeVar, elements: Iterable[ast.Node]) -> None:
        table = self.tables.setdefault(relation.relname, Table())
        for element in elements:
            _add(table, element)


def _add(table: Table, element: ast.Node | None) -> None:
    if isinstance(element, ast.ColumnDef):
        table.columns[element.colname] = element.typeName.names[-1].sval
        for constraint in element.constraints or ():
            _constrain(table, constraint, (element.colname,))
    elif isinstance(element, ast.Constraint):
        _constrain(table, element, ())


def _constrain(table: Table, rule: ast.Constraint, own: tuple[str, ...]) -> None:
    keys = own or tuple(key.sval for key in rule.keys or ())
    name = rule.conname or f"{rule.contype.name} {keys}"
    match rule.contype:
        case enums.ConstrType.CONSTR_PRIMARY:
            table.keys[name] = keys
            table.not_null |= set(keys)
        case enums.ConstrType.CONSTR_UNIQUE | enums.ConstrType.CONSTR_EXCLUSION:
            table.keys[name] = keys
        case enums.ConstrType.CONSTR_NOTNULL:
            table.not_null |= set(keys)
        case enums.ConstrType.CONSTR_IDENTITY:
            table.identities |= set(own)
        case enums.ConstrType.CONSTR_FOREIGN:
            mine = own or tuple(key.sval for key in rule.fk_attrs)
            theirs = tuple(key.sval for key in rule.pk_attrs or ())
            table.references.append((mine, rule.pktable.relname, theirs))
        case _:
            pass


@dataclass(frozen=True)
class Layout:
    """How the tables are spread."""

    distributed: Mapping[str, str]
    """Table to distribution column."""
    reference: frozenset[str] = frozenset()


def layout_of(page: str) -> Layout:
    """Read the layout from the statements that the page tells a reader to run."""
    spread = r"create_distributed_table\('(\w+)', '(\w+)'\)"
    copied = r"create_reference_table\('(\w+)'\)"
    return Layout(dict(re.findall(spread, page)), frozenset(re.findall(copied, page)))


def judge_schema(catalog: Catalog, layout: Layout) -> list[str]:
    """Return every breach of the rules for tables."""
    found = list(catalog.opaque)
    for name, table in catalog.tables.items():
        column = layout.distributed.get(name)
        if column is not None:
            found += _judge_distributed(name, table, column)
        for mine, other, theirs in table.references:
            if (why := _foreign(column, mine, other, theirs, layout, name)) is not None:
                found.append(f"{name}{mine} -> {other}: {why}")
    return found


def _judge_distributed(name: str, table: Table, column: str) -> Iterator[str]:
    if table.columns.get(column) != "text":
        yield f"{name}.{column} is not a text, as the others' columns are"
    if column not in table.not_null:
        yield f"{name}.{column} may be NULL"
    for key, columns in table.keys.items():
        if column not in columns:
            yield f"{name}: {key} lacks {column}"
    for identity in table.identities:
        if table.columns[identity] != "int8":
            yield f"{name}.{identity} is an identity column, and no bigint"


def _foreign(
    column: str | None,
    mine: tuple[str, ...],
    other: str,
    theirs: tuple[str, ...],
    layout: Layout,
    name: str,
) -> str | None:
    if other in layout.distributed:
        pairs = zip(mine, theirs, strict=False)
        if column is None or (column, layout.distributed[other]) not in pairs:
            return "the distribution column is not on both sides"
        return None
    spread = column is not None or name in layout.reference
    if spread and other not in layout.reference:
        return "a table on all nodes points to one on the coordinator"
    return None
