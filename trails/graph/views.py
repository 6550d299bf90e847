"""What `store.graph` returns: rdflib's own classes over the live store, without what would write to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdflib import Dataset, Graph
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.namespace import NamespaceManager
from rdflib.plugins.sparql.sparql import Query
from rdflib.query import Result
from rdflib.term import IdentifiedNode, URIRef

from trails.errors import InvalidInput
from trails.graph.rdflib_store import ReadOnlyStore, refused
from trails.store.contract import QuadStore


class _ReadOnly:
    """What a view refuses before rdflib does anything, such as fetching what is to be parsed."""

    open: Any = refused("open")
    destroy: Any = refused("destroy")
    add: Any = refused("add")
    addN: Any = refused("addN")  # noqa: N815 - rdflib's name
    remove: Any = refused("remove")
    set: Any = refused("set")
    update: Any = refused("update")
    parse: Any = refused("parse")
    commit: Any = refused("commit")
    rollback: Any = refused("rollback")
    __iadd__: Any = refused("+=")
    __isub__: Any = refused("-=")

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
            raise InvalidInput(
                "the store's own engine answers here: leave out processor, result and use_store_provided"
            )
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
        name = identifier if isinstance(identifier, IdentifiedNode) else URIRef(identifier)
        return GraphView(self.store, name, self.namespace_manager, base)

    def graph(self, identifier: Any = None, base: str | None = None) -> Graph:
        """Return one graph by its IRI, which need not have anything in it. No graph is made, and none is copied in."""
        if identifier is None or isinstance(identifier, Graph):
            refused("graph() without an IRI")()
        return self.get_context(identifier, base=base)

    add_graph: Any = refused("add_graph")
    remove_graph: Any = refused("remove_graph")
    remove_context: Any = refused("remove_context")


def view_of(store: QuadStore) -> StoreView:
    """Return all graphs of a store of quads as a read-only dataset."""
    return StoreView(ReadOnlyStore(store))


def graph_of(store: QuadStore, iri: str) -> GraphView:
    """Return one graph of a store of quads, by its IRI."""
    return GraphView(ReadOnlyStore(store), URIRef(iri))
