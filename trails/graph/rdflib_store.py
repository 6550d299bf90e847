"""The store as one of rdflib's: what rdflib reads comes out of it as snapshots, and what rdflib would write is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, cast

import pyoxigraph as ox
from rdflib import Graph, URIRef, Variable
from rdflib.graph import ConjunctiveGraph, _ContextType, _TripleType
from rdflib.plugins.sparql.sparql import Query
from rdflib.query import Result
from rdflib.store import Store
from rdflib.term import IdentifiedNode, Identifier, Node

from trails import queries, vocab
from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.graph.terms import GraphName, to_graph_name, to_identifier, to_pattern, to_rdflib
from trails.store import outside
from trails.store.contract import QuadStore, Solutions
from trails.store.limits import NO_LIMITS

UNION: Final = "__UNION__"
"""What rdflib calls the union of all graphs."""


def refused(what: str) -> Callable[..., NoReturn]:
    """Return a method that raises `TrailsError` in the place of one that writes."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TrailsError(
            f"{what} was refused: `store.graph()` is for reading, and what is written past the sessions is in no log and "
            "fails `verify`. Write with `store.create`, `append` and `persist`; to change a copy, make one: "
            "`copy = rdflib.Graph()`, then `copy += store.graph(session)`"
        )

    return refuse


class ReadOnlyStore(Store):
    """A store of quads behind rdflib's interface, for reading alone.

    Every answer is a snapshot: it is read whole, on the thread that asks. Queries run on the store's own engine, guarded as
    in `Repository.query`. Prefixes that are bound belong to the view and are not stored.
    """

    context_aware = True
    formula_aware = False
    transaction_aware = False
    graph_aware = True

    def __init__(self, store: QuadStore) -> None:
        super().__init__()
        self._quads = store
        self._closed = False
        self._namespaces: dict[str, URIRef] = {}
        self._prefixes: dict[URIRef, str] = {}
        for prefix, namespace in vocab.PREFIXES.items():
            self.bind(prefix, URIRef(namespace))

    @property
    def quad_store(self) -> QuadStore:
        """The store below; raises `StoreFailed` once this view is closed."""
        if self._closed:
            raise StoreFailed(f"this view of {self._quads.location} is closed; get another one with `store.graph()`")
        return self._quads

    def close(self, commit_pending_transaction: bool = False) -> None:
        """End this view. The store stays open; nothing was pending."""
        self._closed = True

    # --- reading

    def triples(
        self, triple_pattern: tuple[Node | None, Node | None, Node | None], context: _ContextType | None = None
    ) -> Iterator[tuple[_TripleType, Iterator[_ContextType | None]]]:
        """Return all triples that match, each once, with the graphs that it stands in."""
        found: dict[ox.Triple, list[GraphName]] = {}
        pattern = to_pattern(triple_pattern, None if isinstance(context, ConjunctiveGraph) else context)
        for quad in self.quad_store.quads(pattern) if pattern is not None else ():
            found.setdefault(quad.triple, []).append(quad.graph_name)
        graphs: dict[GraphName, _ContextType] = {}
        for triple, names in found.items():
            for name in names:
                if name not in graphs:
                    graphs[name] = Graph(self, to_identifier(name))
            yield _triple(triple), iter([graphs[name] for name in names])

    def __len__(self, context: _ContextType | None = None) -> int:
        """Return how many triples a graph has, or how many different ones all graphs have together."""
        if context is None or isinstance(context, ConjunctiveGraph):
            return self._count(queries.find("distinct_triples").bind())
        name = to_graph_name(context)
        return 0 if name is None else self._count(queries.find("triples").bind(), name)

    def _count(self, text: str, graph: GraphName | None = None) -> int:
        rows = cast(Solutions, self.quad_store.query(text, graph=graph))
        return int(cast(ox.Literal, rows[0]["count"]).value)

    def contexts(self, triple: _TripleType | None = None) -> Iterator[_ContextType]:  # type: ignore[override] # or names, as `Dataset` takes them
        """Return the names of all named graphs, or of the graphs in which a triple stands."""
        if triple is not None and any(node is not None for node in triple):
            pattern = to_pattern(triple, None)
            found = self.quad_store.quads(pattern) if pattern is not None else []
            names = list(dict.fromkeys(quad.graph_name for quad in found))
        else:
            rows = cast(Solutions, self.quad_store.query(queries.find("graphs").bind()))
            names = [cast(ox.NamedNode, row["graph"]) for row in rows]
        return cast(Iterator[_ContextType], iter([to_identifier(name) for name in names]))

    def query(
        self,
        query: Query | str,
        initNs: Mapping[str, Any],  # noqa: N803 - rdflib's names
        initBindings: Mapping[str, Any],  # noqa: N803
        queryGraph: str | IdentifiedNode,  # noqa: N803
        **options: Any,
    ) -> Result:
        """Return the result of a SPARQL query, all of it, as the store's own engine answers it.

        A query of one graph sees that one alone. Raises `InvalidInput` for what `Repository.query` refuses, and for
        `initBindings`, which the engine cannot give to every part of a query.
        """
        text, namespaces, base = _asked(query, initNs, options)
        if initBindings:
            raise InvalidInput(
                f"initBindings are not taken here ({', '.join(sorted(map(str, initBindings)))}): write the values into the "
                "query, as in `VALUES ?name { <urn:example> }`"
            )
        whole = _declared(text, namespaces, base)
        store = self.quad_store
        if queryGraph == UNION:
            return _result(outside.answer(store, whole, NO_LIMITS, union=True))
        name = to_graph_name(queryGraph if isinstance(queryGraph, Node) else URIRef(queryGraph))
        graph = None if isinstance(name, ox.DefaultGraph) else name
        return _result(outside.answer(store, whole, NO_LIMITS, graph=graph))

    # --- prefixes: the view's own

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        """Let a prefix stand for a namespace in this view."""
        taken = prefix in self._namespaces or namespace in self._prefixes
        if taken and not override:
            return
        self._prefixes.pop(self._namespaces.pop(prefix, namespace), None)
        self._namespaces.pop(self._prefixes.pop(namespace, prefix), None)
        self._namespaces[prefix] = namespace
        self._prefixes[namespace] = prefix

    def prefix(self, namespace: URIRef) -> str | None:
        """Return the prefix that stands for a namespace."""
        return self._prefixes.get(namespace)

    def namespace(self, prefix: str) -> URIRef | None:
        """Return the namespace that a prefix stands for."""
        return self._namespaces.get(prefix)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        """Return all prefixes with their namespaces."""
        return iter(list(self._namespaces.items()))

    # --- what would write

    open: Any = refused("open")
    create: Any = refused("create")
    destroy: Any = refused("destroy")
    add: Any = refused("add")
    addN: Any = refused("addN")  # noqa: N815 - rdflib's name
    remove: Any = refused("remove")
    update: Any = refused("update")
    commit: Any = refused("commit")
    rollback: Any = refused("rollback")
    add_graph: Any = refused("add_graph")
    remove_graph: Any = refused("remove_graph")


def _triple(triple: ox.Triple) -> _TripleType:
    return to_rdflib(triple.subject), to_rdflib(triple.predicate), to_rdflib(triple.object)


def _asked(query: Query | str, names: Mapping[str, Any], options: dict[str, Any]) -> tuple[str, Mapping[str, Any], Any]:
    """Return the text of a query, the prefixes that it may use, and its base. A prepared one is asked as it was written."""
    base = options.pop("base", None)
    options.pop("DEBUG", None)
    if options:
        raise InvalidInput(f"a query takes no {', '.join(sorted(options))} here")
    if not isinstance(query, Query):
        return str(query), names, base
    if query._original_args is None:
        raise InvalidInput("this prepared query does not know its text: give the text")
    text, own, own_base = query._original_args
    return text, {**names, **own}, own_base or base


def _declared(text: str, namespaces: Mapping[str, Any], base: str | None) -> str:
    """Return a query with the prefixes declared that it may use and that are not known anyway, on the line it begins on."""
    used = {
        prefix: str(iri)
        for prefix, iri in namespaces.items()
        if f"{prefix}:" in text and vocab.PREFIXES.get(prefix) != str(iri)
    }
    try:
        head = [f"BASE {ox.NamedNode(base)}"] if base else []
        head += [f"PREFIX {prefix}: {ox.NamedNode(iri)}" for prefix, iri in used.items()]
    except ValueError as error:
        raise InvalidInput(f"a prefix or base of the query is no IRI: {error}") from error
    return " ".join([*head, text])


def _result(found: Solutions | bool | list[ox.Triple]) -> Result:
    if isinstance(found, bool):
        result = Result("ASK")
        result.askAnswer = found
    elif isinstance(found, Solutions):
        result = Result("SELECT")
        result.vars = [Variable(name) for name in found.variables]
        result.bindings = [dict(_bound(result.vars, row)) for row in found]
    else:
        result = Result("CONSTRUCT")
        result.graph = Graph()
        for triple in found:
            result.graph.add(_triple(triple))
    return result


def _bound(names: Iterable[Variable], row: ox.QuerySolution) -> Iterator[tuple[Variable, Identifier]]:
    for name in names:
        term = row[str(name)]
        if term is not None:
            yield name, to_rdflib(term)
