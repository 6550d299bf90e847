"""Terms of RDF between two libraries: pyoxigraph's, which the store has, and rdflib's, which its views show."""

from __future__ import annotations

from typing import cast

import pyoxigraph as ox
from rdflib import BNode, Graph, Literal, URIRef
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.term import IdentifiedNode, Node

from trails import vocab
from trails.errors import InvalidInput
from trails.store.pattern import Pattern
from trails.store.plain import Term

GraphName = ox.NamedNode | ox.BlankNode | ox.DefaultGraph


def to_rdflib(term: Term) -> IdentifiedNode | Literal:
    """Return a term as rdflib has it. What rdflib writes in its own way (times with six digits) is the same value.

    Raises `InvalidInput` for a triple in the place of a term, which rdflib does not know.

    >>> to_rdflib(ox.Literal("Snow", language="en"))
    rdflib.term.Literal('Snow', lang='en')
    """
    match term:
        case ox.NamedNode():
            return URIRef(term.value)
        case ox.BlankNode():
            return BNode(term.value)
        case ox.Literal():
            if (
                term.language or term.datatype == vocab.STRING
            ):  # rdflib tells "a" and "a"^^xsd:string apart, and reads the first
                return Literal(term.value, lang=term.language)
            return Literal(term.value, datatype=URIRef(term.datatype.value))
    raise InvalidInput(f"rdflib knows no triples of triples, such as {term}: ask with `store.query`")


def to_pyoxigraph(node: object) -> ox.NamedNode | ox.BlankNode | ox.Literal | None:
    """Return a term of rdflib as the store's engine has it, None for one that no store holds, such as an IRI with spaces.

    Raises `InvalidInput` for what is no term: a plain string, a variable.
    """
    try:
        match node:
            case URIRef():
                return ox.NamedNode(str(node))
            case BNode():
                return ox.BlankNode(str(node))
            case Literal():
                if node.language:
                    return ox.Literal(str(node), language=node.language)
                if node.datatype is None:
                    return ox.Literal(str(node))
                return ox.Literal(str(node), datatype=ox.NamedNode(str(node.datatype)))
    except ValueError:
        return None
    raise InvalidInput(f"a pattern is made of rdflib's terms (URIRef, Literal, BNode) and None, not of {node!r}")


def to_graph_name(graph: Graph | Node) -> GraphName | None:
    """Return the name that a graph has in the store, None for one that no store holds."""
    name = graph.identifier if isinstance(graph, Graph) else graph
    if name == DATASET_DEFAULT_GRAPH_ID:
        return ox.DefaultGraph()
    found = to_pyoxigraph(name)
    return None if isinstance(found, ox.Literal) else found


def to_identifier(name: GraphName) -> IdentifiedNode:
    """Return the name that rdflib has for a graph of the store."""
    return DATASET_DEFAULT_GRAPH_ID if isinstance(name, ox.DefaultGraph) else cast(IdentifiedNode, to_rdflib(name))


def to_pattern(triple: tuple[object, object, object], graph: Graph | Node | None) -> Pattern | None:
    """Return the pattern of quads that rdflib's pattern of triples stands for, None where nothing can match it.

    Raises `InvalidInput` for what is no term.
    """
    subject, predicate, value = (None if node is None else to_pyoxigraph(node) for node in triple)
    name = None if graph is None else to_graph_name(graph)
    left_open = [given is None for given in (*triple, graph)]
    if [found is None for found in (subject, predicate, value, name)] != left_open:
        return None
    if isinstance(subject, ox.Literal) or isinstance(predicate, ox.Literal | ox.BlankNode):
        return None
    return cast(Pattern, (subject, predicate, value, name))
