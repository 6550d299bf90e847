"""Show the live store to rdflib as a read-only Dataset.

rdflib reads snapshots of the store; queries run on the store's own engine; whatever would write is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar, cast

import pyoxigraph as ox
from rdflib import BNode, Dataset, Graph, Literal, URIRef, Variable
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, ConjunctiveGraph, _ContextType, _TripleType
from rdflib.namespace import NamespaceManager
from rdflib.plugins.sparql.sparql import Query
from rdflib.plugins.stores.memory import SimpleMemory
from rdflib.query import Result
from rdflib.store import Store
from rdflib.term import IdentifiedNode, Node
from rdflib.term import URIRef as URIRef_term

from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.history import encryption
from trails.rdf import query_files, vocab
from trails.rdf.derived_quads import DERIVED
from trails.store.contract import QuadStore, Solutions, Triples
from trails.store.pattern import NOTHING, Pattern
from trails.store.queries import user_queries
from trails.store.queries.query_pool import NO_LIMITS
from trails.store.tsv import Term

_Class = TypeVar("_Class", bound=type)
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
            is_text = term.language or term.datatype == vocab.STRING  # rdflib tells "a" and "a"^^xsd:string apart
            datatype = None if is_text else URIRef(term.datatype.value)
            return Literal(term.value, lang=term.language, datatype=datatype)
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
                datatype = None if node.datatype is None or node.language else ox.NamedNode(str(node.datatype))
                return ox.Literal(str(node), language=node.language, datatype=datatype)
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
    """Return the pattern of quads that rdflib's pattern of triples stands for, None if nothing can match it.

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


UNION: Final = "__UNION__"
"""What rdflib calls the union of all graphs."""


def refuse_write(what: str) -> Callable[..., NoReturn]:
    """Return a method that raises `TrailsError` in the place of one that writes."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TrailsError(
            f"{what} was refused: `store.graph()` is for reading, and what is written past the sessions is in no log and "
            "fails `verify`. Write with `store.create`, `append` and `persist`; to change a copy, make one: "
            "`copy = rdflib.Graph()`, then `copy += store.graph(session)`"
        )

    return refuse


def _refusing(*names: str) -> Callable[[_Class], _Class]:
    """Let the methods of a class that write raise `TrailsError`."""

    def refuse_all(made: _Class) -> _Class:
        for name in names:
            setattr(made, name, refuse_write({"__iadd__": "+=", "__isub__": "-="}.get(name, name)))
        return made

    return refuse_all


@_refusing(
    "open", "create", "destroy", "add", "addN", "remove", "update", "commit", "rollback", "add_graph", "remove_graph"
)
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
        self._derived: tuple[object, ox.Store] | None = None
        """What is derived from the quads of the store, as of which commit."""
        names = SimpleMemory()  # prefixes are the view's own
        self.bind, self.prefix = names.bind, names.prefix  # type: ignore[method-assign] # of the same kind
        self.namespace, self.namespaces = names.namespace, names.namespaces  # type: ignore[method-assign]
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
        for quad in self._matching(pattern) if pattern is not None else ():
            found.setdefault(quad.triple, []).append(quad.graph_name)
        graphs: dict[GraphName, _ContextType] = {}
        for triple, names in found.items():
            for name in names:
                if name not in graphs:
                    graphs[name] = Graph(self, to_identifier(name))
            yield _triple(triple), iter([graphs[name] for name in names])

    def _matching(self, pattern: Pattern) -> Iterable[ox.Quad]:
        """Return the quads that match a pattern; where it names a derived property, those that are derived."""
        store = self.quad_store
        if pattern[1] not in DERIVED:
            return store.quads(pattern)
        store.quads(NOTHING)  # what others committed is brought in
        version = store.number, store.token
        if self._derived is None or self._derived[0] != version:
            triples = user_queries.answer(store, query_files.find("derived_triples").bind(), NO_LIMITS, is_ours=True)
            engine = ox.Store()
            engine.extend(ox.Quad(*triple) for triple in cast(Triples, triples))
            self._derived = version, engine
        return self._derived[1].quads_for_pattern(*pattern)

    def __len__(self, context: _ContextType | None = None) -> int:
        """Return how many triples a graph has, or how many different ones all graphs have together."""
        if context is None or isinstance(context, ConjunctiveGraph):
            return self._count(query_files.find("distinct_triples").bind())
        name = to_graph_name(context)
        return 0 if name is None else self._count(query_files.find("triples").bind(), name)

    def _count(self, text: str, graph: GraphName | None = None) -> int:
        rows = cast(Solutions, self.quad_store.query(text, graph=graph))
        return int(cast(ox.Literal, rows[0]["count"]).value)

    def contexts(self, triple: _TripleType | None = None) -> Iterator[_ContextType]:  # type: ignore[override] # or names, as `Dataset` takes them
        """Return the names of all named graphs, or of the graphs in which a triple stands."""
        if triple is not None and any(node is not None for node in triple):
            pattern = to_pattern(triple, None)
            found = self._matching(pattern) if pattern is not None else []
            names = list(dict.fromkeys(quad.graph_name for quad in found))
        else:
            rows = cast(Solutions, self.quad_store.query(query_files.find("graphs").bind()))
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
            encryption.check_query(store, whole)
            return _result(user_queries.answer(store, whole, NO_LIMITS, union=True))
        name = to_graph_name(queryGraph if isinstance(queryGraph, Node) else URIRef(queryGraph))
        graph = None if isinstance(name, ox.DefaultGraph) else name
        encryption.check_query(store, whole)
        return _result(user_queries.answer(store, whole, NO_LIMITS, graph=graph))


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
    used = {prefix: str(iri) for prefix, iri in namespaces.items() if f"{prefix}:" in text}
    more = {prefix: iri for prefix, iri in used.items() if vocab.PREFIXES.get(prefix) != iri}
    try:
        head = [f"BASE {ox.NamedNode(base)}"] if base else []
        head += [f"PREFIX {prefix}: {ox.NamedNode(iri)}" for prefix, iri in more.items()]
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
        result.bindings = [
            {name: to_rdflib(term) for name in result.vars if (term := row[str(name)]) is not None} for row in found
        ]
    else:
        result = Result("CONSTRUCT")
        result.graph = Graph()
        for triple in found:
            result.graph.add(_triple(triple))
    return result


@_refusing(
    *(
        "open",
        "destroy",
        "add",
        "addN",
        "remove",
        "set",
        "update",
        "parse",
        "commit",
        "rollback",
        "__iadd__",
        "__isub__",
    )
)
class _ReadOnly:
    """What a view refuses before rdflib does anything, such as fetching what is to be parsed."""

    def query(  # noqa: PLR0917 - rdflib's signature
        self,
        query_object: str | Query,
        processor: Any = "sparql",
        result: Any = "sparql",
        initNs: Mapping[str, Any] | None = None,  # noqa: N803 - rdflib's names
        initBindings: Mapping[str, Any] | None = None,  # noqa: N803
        use_store_provided: bool = True,
        **kwargs: Any,
    ) -> Result:
        """Return the result of a SPARQL query, answered by the store's engine: no other processor is taken."""
        if not use_store_provided or processor != "sparql" or result != "sparql":
            what = "leave out processor, result and use_store_provided"
            raise InvalidInput(f"the store's own engine answers here: {what}")
        return super().query(query_object, initNs=initNs, initBindings=initBindings, **kwargs)  # type: ignore[misc, no-any-return] # `Graph.query`


class GraphView(_ReadOnly, Graph):
    """One graph of a store, as an `rdflib.Graph` that is read and never written."""

    def __init__(
        self,
        store: ReadOnlyStore,
        identifier: IdentifiedNode | str,
        namespace_manager: NamespaceManager | None = None,
        base: str | None = None,
    ) -> None:
        super().__init__(store, identifier, namespace_manager, base)


@_refusing("add_graph", "remove_graph", "remove_context")
class StoreView(_ReadOnly, Dataset):
    """All graphs of a store, as an `rdflib.Dataset` that is read and never written.

    The default graph has the sessions, the graph that a session's IRI names has the turns that it owns. With
    `default_union = True`, patterns outside GRAPH match all graphs.
    """

    def __init__(self, store: ReadOnlyStore, default_union: bool = False) -> None:
        super().__init__(store, default_union)
        self._default_context = GraphView(store, DATASET_DEFAULT_GRAPH_ID)

    @property
    def default_context(self) -> Graph:
        """The default graph; rdflib itself asks for it by this old name, and warns of it."""
        return self._default_context

    @default_context.setter
    def default_context(self, graph: Graph) -> None:
        self._default_context = graph

    def get_context(
        self, identifier: IdentifiedNode | str | None, quoted: bool = False, base: str | None = None
    ) -> Graph:
        """Return one graph, which need not have anything in it."""
        if identifier is None or quoted:
            raise InvalidInput("name the graph by its IRI; the sessions' own graphs are named by `iri`")
        assert isinstance(self.store, ReadOnlyStore)  # noqa: S101 - what it was made with
        name = identifier if isinstance(identifier, IdentifiedNode) else URIRef_term(identifier)
        return GraphView(self.store, name, self.namespace_manager, base)

    def graph(self, identifier: Any = None, base: str | None = None) -> Graph:
        """Return one graph by its IRI, which need not have anything in it. No graph is made, and none is copied in."""
        if identifier is None or isinstance(identifier, Graph):
            refuse_write("graph() without an IRI")()
        return self.get_context(identifier, base=base)


def dataset_view(store: QuadStore) -> StoreView:
    """Return all graphs of a store of quads as a read-only dataset."""
    return StoreView(ReadOnlyStore(store))


def graph_view(store: QuadStore, iri: str) -> GraphView:
    """Return one graph of a store of quads, by its IRI."""
    return GraphView(ReadOnlyStore(store), URIRef_term(iri))


__all__ = ["GraphView", "StoreView"]
