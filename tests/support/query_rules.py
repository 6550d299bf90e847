"""The rules of CONTRIBUTING.md for query files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import rdflib
from pyparsing import ParseException
from rdflib.plugins.sparql.algebra import translateQuery
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.sparql import Query

from trails.rdf import query_files


def lint(query: query_files.QueryFile) -> list[str]:
    """Return what is wrong with a query file by the rules of CONTRIBUTING.md; nothing for a good one."""
    try:
        return list(read(query)[0])
    except ParseException as error:
        return [f"is not SPARQL 1.1: {error}"]


@cache
def read(query: query_files.QueryFile) -> tuple[tuple[str, ...], Query]:
    """Return what is wrong with a query, and the query as rdflib runs it; its tree of a long one takes rdflib seconds."""
    tree = parseQuery(query.text)
    found = tuple(_lint_tree(query, tree[1]))
    return found, translateQuery(tree)  # which makes another one of the tree


def _lint_tree(query: query_files.QueryFile, parsed: CompValue) -> list[str]:
    found = _lint_header(query, parsed)
    nodes = list(_walk(parsed))
    for node in nodes:
        if not isinstance(node, CompValue):
            continue
        if node.name == "GraphGraphPattern" and isinstance(node.term, rdflib.Variable):
            inside = {inner.name for inner in _walk(node.graph) if isinstance(inner, CompValue)}
            if "SubSelect" in inside:
                found.append(f"has a sub-SELECT under GRAPH ?{node.term}, which reads every graph")
        if node.name == "ServiceGraphPattern":
            found.append("uses SERVICE")
        if node.name == "SubSelect":
            found += _lint_scope(query, node)
        if node.name.endswith("Query") and "valuesClause" in node:
            found.append("ends in VALUES, which changes aggregates; put it into the body")
    if any(isinstance(node, rdflib.BNode) for node in nodes):
        found.append("has a blank node, which another engine may take for a variable")
    return found


def _walk(node: Any) -> Iterator[Any]:
    yield node
    if isinstance(node, CompValue):
        for value in node.values():
            yield from _walk(value)
    elif isinstance(node, list | tuple) or type(node).__name__ in ("ParseResults", "plist"):
        for value in node:
            yield from _walk(value)


def _lint_header(query: query_files.QueryFile, parsed: CompValue) -> list[str]:
    found = []
    if not query.purpose:
        found.append("has no purpose")
    kinds = {"session", "turn", "iri", "text", "integer", "time", "principal", "agent"}
    found += [f"has a parameter of unknown kind {p.kind!r}" for p in query.parameters if p.kind not in kinds]
    declared = [column.name for column in query.columns]
    if parsed.name == "SelectQuery":
        projected = [str(item["evar" if "evar" in item else "var"]) for item in parsed["projection"]]
        if declared != projected:
            found.append(f"declares the columns {declared} and projects {projected}")
    elif declared:
        found.append("declares columns and is no SELECT")
    for parameter in query.parameters:
        for line in query.text.splitlines():
            if line.endswith(f"#: {parameter.name}") and line.lstrip().startswith("VALUES"):
                default_is_open = "UNDEF" in line
                if default_is_open and not parameter.optional:
                    found.append(f"runs without {parameter.name!r} as it stands, but does not declare it optional")
    return found


def _lint_scope(query: query_files.QueryFile, sub_select: CompValue) -> list[str]:
    """A variable that a marked VALUES line binds must be bound in each sub-SELECT that uses it too."""
    marked = set(re.findall(r"^\s*VALUES \?(\w+) \{.*#: \w+$", query.text, re.MULTILINE))
    used = {str(node) for node in _walk(sub_select) if isinstance(node, rdflib.Variable)}
    bound = {
        str(inner)
        for node in _walk(sub_select.where)
        if isinstance(node, CompValue) and node.name == "InlineData"
        for inner in _walk(node)
        if isinstance(inner, rdflib.Variable)
    }
    return [f"uses ?{name} in a sub-SELECT that has no VALUES line for it" for name in sorted((marked & used) - bound)]
