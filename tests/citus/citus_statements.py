"""Citus' rules for statements, held against what PostgreSQL parses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from citus_tables import Catalog, Layout, parse
from citus_themes import Columns, Findings, Part, Scope, Source, Theme, Themes
from pglast import ast, enums

IMMUTABLE = frozenset({"array_remove"})
"""Functions that may stand in DO UPDATE; COALESCE, LEAST and CASE are no functions."""


class Judge:
    """Goes through one statement."""

    def __init__(self, catalog: Catalog, layout: Layout) -> None:
        """Know the tables, and how they are spread."""
        self._tables = catalog.tables
        self._layout = layout
        self._themes = Themes()
        self._writes: list[Theme] = []
        self._locked: list[list[Theme]] = []
        self._together: list[Theme] = []
        """The tables that the query at hand brings together."""
        self.findings = Findings()

    def statement(self, node: ast.Node) -> None:
        """Take in one statement."""
        match node:
            case ast.LockStmt():
                return
            case ast.SelectStmt() | ast.InsertStmt() | ast.UpdateStmt():
                self._query(node, {}, None)
            case ast.DeleteStmt():
                self._query(node, {}, None)
            case ast.TransactionStmt():
                return
            case _:
                self.findings.alien = True
                return
        self._close_group([])
        self.findings.spreads |= any(
            not self._themes.bound(one) for one in self._writes
        )
        self.findings.spreads |= (
            len({self._themes.class_of(one) for one in self._writes}) > 1
        )
        for themes in self._locked:
            self.findings.locks |= any(not self._themes.bound(one) for one in themes)

    # -- groups of tables -----------------------------------------------------

    def _close_group(self, before: list[Theme]) -> None:
        """Judge what was brought together, and go on with what was *before*."""
        classes = {self._themes.class_of(theme) for theme in self._together}
        self.findings.joins |= len(classes) > 1
        self._together = before

    def _open_group(self) -> list[Theme]:
        before, self._together = self._together, []
        return before

    # -- queries --------------------------------------------------------------

    def _query(
        self, node: ast.Node, parts: Mapping[str, Part], outer: Scope | None
    ) -> Columns:
        """Go through a query; return its columns and the themes they carry."""
        parts = {**parts, **self._with(node, parts)}
        limited = getattr(node, "limitCount", None) is not None
        scope = Scope(parts, outer, limited)
        match node:
            case ast.SelectStmt() if node.op != enums.SetOperation.SETOP_NONE:
                return self._either(node, scope)
            case ast.SelectStmt():
                return self._select(node, scope)
            case ast.InsertStmt():
                return self._insert(node, scope)
            case _:
                return self._change(node, scope)

    def _with(self, node: ast.Node, parts: Mapping[str, Part]) -> dict[str, Part]:
        clause = getattr(node, "withClause", None)
        if clause is None:
            return {}
        self.findings.recurses |= bool(clause.recursive)
        made: dict[str, Part] = {}
        for cte in clause.ctes:
            known = {**parts, **made}
            if clause.recursive:
                known[cte.ctename] = Part(None, {}, {})
            query, columns = cte.ctequery, {}
            if (
                not isinstance(query, ast.SelectStmt)
                or cte.ctematerialized == enums.CTEMaterialize.CTEMaterializeAlways
            ):
                # Citus computes it first, and hands the result to every shard.
                before = self._open_group()
                columns, query = self._query(query, known, None), None
                self._close_group(before)
            if cte.aliascolnames:
                columns = _renamed(columns, cte.aliascolnames)
            made[cte.ctename] = Part(query, known, columns)
        return made

    def _either(self, node: ast.SelectStmt, scope: Scope) -> Columns:
        """Take the two sides apart: what is united is not joined."""
        sides: list[Columns] = []
        spread = False
        for side in (node.larg, node.rarg):
            before = self._open_group()
            sides.append(self._query(side, scope.parts, scope))
            spread |= bool(self._together)
            self._close_group(before)
        united = self._themes.new("union")
        if spread:
            self._together.append(united)
        pairs = zip(sides[0].items(), sides[1].values(), strict=False)
        return {name: united if one and other else None for (name, one), other in pairs}

    def _select(self, node: ast.SelectStmt, scope: Scope) -> Columns:
        already = len(self._together)
        for item in node.fromClause or ():
            self._from(item, scope)
        if node.lockingClause:
            self._locked.append(self._together[already:])
        self._where(node.whereClause, scope)
        for rest in (node.groupClause, node.havingClause, node.sortClause):
            self._expression(rest, scope)
        for clause in (node.windowClause, node.valuesLists, node.distinctClause):
            self._expression(clause, scope)
        return self._outputs(node.targetList, scope)

    def _outputs(self, targets: object, scope: Scope) -> Columns:
        columns: Columns = {}
        for target in targets or ():
            self._expression(target.val, scope)
            value = target.val
            if isinstance(value, ast.ColumnRef):
                last = value.fields[-1]
                if isinstance(last, ast.A_Star):
                    for source in scope.sources:
                        if len(value.fields) == 1 or (
                            value.fields[0].sval == source.alias
                        ):
                            columns |= source.columns
                    continue
                columns[target.name or last.sval] = self._theme(value, scope)
            else:
                name = target.name or self._themes.new("unnamed")
                columns[name] = self._theme(value, scope)
        return columns

    # -- what rows come from --------------------------------------------------

    def _from(self, item: ast.Node, scope: Scope) -> None:
        match item:
            case ast.JoinExpr():
                self._join(item, scope)
            case ast.RangeVar():
                alias = item.alias.aliasname if item.alias else item.relname
                columns = self._relation(item, scope)
                scope.sources.append(Source(alias, columns))
            case ast.RangeSubselect():
                columns = self._query(item.subquery, scope.parts, scope)
                if item.alias.colnames:
                    columns = _renamed(columns, item.alias.colnames)
                scope.sources.append(Source(item.alias.aliasname, columns))
            case ast.RangeFunction():
                self._expression(item.functions, scope)
                alias = item.alias.aliasname if item.alias else ""
                names = (item.alias.colnames if item.alias else None) or ()
                columns = {n.sval: self._themes.new(f"{alias}.{n.sval}") for n in names}
                scope.sources.append(Source(alias, columns))
            case _:
                self.findings.alien = True

    def _join(self, item: ast.JoinExpr, scope: Scope) -> None:
        start = len(scope.sources)
        self._from(item.larg, scope)
        middle = len(scope.sources)
        self._from(item.rarg, scope)
        for name in item.usingClause or ():
            left = [s.columns.get(name.sval) for s in scope.sources[start:middle]]
            right = [s.columns.get(name.sval) for s in scope.sources[middle:]]
            for one in left:
                for other in right:
                    self._themes.tie(one, other)
        self._where(item.quals, scope)

    def _relation(self, item: ast.RangeVar, scope: Scope) -> Columns:
        part = scope.parts.get(item.relname)
        if part is not None and part.query is not None:
            return self._query(part.query, part.parts, None)
        if part is not None:
            return part.columns
        columns: Columns = dict.fromkeys(
            self._tables[item.relname].columns if item.relname in self._tables else ()
        )
        column = self._layout.distributed.get(item.relname)
        if column is not None:
            columns[column] = self._themes.new(item.relname)
            self._together.append(columns[column])
        return columns

    # -- writes ---------------------------------------------------------------

    def _insert(self, node: ast.InsertStmt, scope: Scope) -> Columns:
        columns = self._target(node.relation, scope)
        theme = self._written(node.relation, columns)
        given: list[Theme | None] = []
        if node.selectStmt.valuesLists:
            for row in node.selectStmt.valuesLists:
                self._expression(row, scope)
            rows = node.selectStmt.valuesLists
            given = [self._theme(value, scope) for value in rows[0]]
            given = given if len(rows) == 1 else []
        else:
            given = list(self._query(node.selectStmt, scope.parts, scope).values())
        names = [target.name for target in node.cols or ()]
        column = self._layout.distributed.get(node.relation.relname)
        if column in names and names.index(column) < len(given):
            self._themes.tie(theme, given[names.index(column)])
        if node.onConflictClause is not None and column is not None:
            self._conflict(node.onConflictClause, column)
        return self._outputs(_returned(node), scope)

    def _conflict(self, clause: ast.OnConflictClause, column: str) -> None:
        elements = clause.infer.indexElems if clause.infer else None
        if elements and column not in {element.name for element in elements}:
            self.findings.conflict = True
        for target in clause.targetList or ():
            self.findings.moves |= target.name == column
        for node in _nodes((clause.targetList, clause.whereClause)):
            match node:
                case ast.FuncCall() if node.funcname[-1].sval not in IMMUTABLE:
                    self.findings.conflict = True
                case ast.SQLValueFunction() | ast.SubLink():
                    self.findings.conflict = True
                case _:
                    pass

    def _change(self, node: ast.Node, scope: Scope) -> Columns:
        """Go through an UPDATE or DELETE."""
        self._written(node.relation, self._target(node.relation, scope))
        others = getattr(node, "fromClause", None) or getattr(node, "usingClause", None)
        for item in others or ():
            self._from(item, scope)
        self._where(node.whereClause, scope)
        column = self._layout.distributed.get(node.relation.relname)
        for target in getattr(node, "targetList", None) or ():
            self.findings.moves |= target.name == column
            self._expression(target.val, scope)
        return self._outputs(_returned(node), scope)

    def _target(self, relation: ast.RangeVar, scope: Scope) -> Columns:
        self._from(relation, scope)
        return scope.sources[-1].columns

    def _written(self, relation: ast.RangeVar, columns: Columns) -> Theme | None:
        column = self._layout.distributed.get(relation.relname)
        theme = columns.get(column) if column is not None else None
        if theme is not None:
            self._writes.append(theme)
        return theme

    # -- expressions ----------------------------------------------------------

    def _where(self, node: ast.Node | None, scope: Scope) -> None:
        """Tie what a condition makes equal, wherever it holds."""
        if isinstance(node, ast.BoolExpr) and (
            node.boolop == enums.BoolExprType.AND_EXPR
        ):
            for part in node.args:
                self._where(part, scope)
            return
        if (
            isinstance(node, ast.A_Expr)
            and node.kind == enums.A_Expr_Kind.AEXPR_OP
            and node.name[-1].sval == "="
        ):
            self._themes.tie(
                self._theme(node.lexpr, scope), self._theme(node.rexpr, scope)
            )
        self._expression(node, scope)

    def _expression(self, node: object, scope: Scope) -> None:
        """Look for subqueries, and for names of the queries around them."""
        for inner in _nodes(node, stop=ast.SubLink):
            match inner:
                case ast.SubLink():
                    self._expression(inner.testexpr, scope)
                    self._query(inner.subselect, scope.parts, scope)
                case ast.ColumnRef():
                    self._theme(inner, scope)
                case _:
                    pass

    def _theme(self, node: ast.Node | None, scope: Scope) -> Theme | None:
        match node:
            case ast.TypeCast():
                return self._theme(node.arg, scope)
            case ast.ParamRef():
                return f"${node.number}"
            case ast.ColumnRef():
                return self._resolve(
                    [getattr(f, "sval", "*") for f in node.fields], scope
                )
            case _:
                return None

    def _resolve(self, names: list[str], scope: Scope) -> Theme | None:
        within: Scope | None = scope
        limited = False
        while within is not None:
            for source in within.sources:
                if len(names) == 2 and names[0] != source.alias:
                    continue
                if len(names) == 2 or names[-1] in source.columns:
                    self.findings.lateral |= limited
                    return source.columns.get(names[-1])
            limited |= within.limited
            within = within.outer
        return None


def judge(sql: str, catalog: Catalog, layout: Layout) -> set[str]:
    """Return the names of the rules that *sql* does not keep; see `Findings`."""
    broken: set[str] = set()
    for node in parse(sql):
        one = Judge(catalog, layout)
        one.statement(node)
        broken |= one.findings.broken()
    return broken


def _returned(node: ast.Node) -> object:
    return node.returningClause.exprs if node.returningClause else ()


def _renamed(columns: Columns, names: object) -> Columns:
    new = [name.sval for name in names]
    return dict(zip(new, list(columns.values()) + [None] * len(new), strict=False))


def _nodes(node: object, stop: type[ast.Node] | None = None) -> Iterator[ast.Node]:
    """Yield every node of a tree; below one of the type *stop* nothing."""
    if isinstance(node, tuple | list):
        for inner in node:
            yield from _nodes(inner, stop)
    elif isinstance(node, ast.Node):
        yield node
        if stop is None or not isinstance(node, stop):
            for name in node:
                yield from _nodes(getattr(node, name), stop)
