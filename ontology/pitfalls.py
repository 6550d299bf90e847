"""Find pitfalls in an ontology: those of the catalogue of OOPS! that a machine finds without a network.

Each check has the number that the catalogue has for it (https://oops.linkeddata.es/catalogue.jsp; Poveda-Villalon et al. 2014).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final

from rdflib import DCTERMS, OWL, RDF, RDFS, Graph, Literal, URIRef
from rdflib.collection import Collection
from rdflib.namespace import VANN
from rdflib.term import BNode, Node

_PROPERTIES: Final = (OWL.ObjectProperty, OWL.DatatypeProperty)
_EQUIVALENCES: Final = (OWL.equivalentClass, OWL.equivalentProperty, OWL.sameAs)
_HIERARCHY: Final = (RDFS.subClassOf, RDFS.subPropertyOf)


def pitfalls(graph: Graph, namespace: str) -> tuple[str, ...]:
    """Return the pitfalls of the ontology that defines the terms of a namespace, as `P08 trails:index has no comment`."""
    of = _Ontology(graph, namespace)
    return tuple(sorted(f"{number} {each}" for number, check in CHECKS.items() for each in check(of)))


def without_inverse(graph: Graph, namespace: str) -> tuple[str, ...]:
    """Return the names of the object properties for which no inverse is declared: P13, which is to be reported and no fault."""
    of = _Ontology(graph, namespace)
    return tuple(sorted(of.name(each) for each in of.edges if not of.inverses(each)))


class _Ontology:
    def __init__(self, graph: Graph, namespace: str) -> None:
        self.graph, self.namespace = graph, namespace
        self.classes = self._own(OWL.Class)
        self.edges = self._own(OWL.ObjectProperty)
        self.values = self._own(OWL.DatatypeProperty)
        self.properties = self.edges | self.values
        self.terms = self.classes | self.properties | self._own(RDFS.Datatype)

    def _own(self, kind: Node) -> frozenset[URIRef]:
        return frozenset(each for each in self.graph.subjects(RDF.type, kind) if self.is_own(each))  # type: ignore[misc] # IRIs

    def is_own(self, node: Node) -> bool:
        return isinstance(node, URIRef) and str(node).startswith(self.namespace)

    def name(self, node: Node) -> str:
        return str(node).removeprefix(self.namespace)

    def members(self, node: Node, predicate: URIRef) -> frozenset[Node]:
        """Return what a domain or range names: a class, or those of a union."""
        found = set[Node]()
        for each in self.graph.objects(node, predicate):
            union = self.graph.value(each, OWL.unionOf)
            found |= {each} if union is None else set(Collection(self.graph, union))
        return frozenset(found)

    def inverses(self, node: Node) -> set[Node]:
        """Return the properties that a property is declared the inverse of, from either side."""
        return {*self.graph.objects(node, OWL.inverseOf), *self.graph.subjects(OWL.inverseOf, node)}

    def headers(self) -> list[Node]:
        return list(self.graph.subjects(RDF.type, OWL.Ontology))


def _synonyms(of: _Ontology) -> Iterator[str]:
    """P02: two classes of the ontology for one thing, and two classes with one label."""
    for one, other in of.graph.subject_objects(OWL.equivalentClass):
        if of.is_own(one) and of.is_own(other):
            yield f"{of.name(one)} and {of.name(other)} are two classes for one thing"
    labels = {each: str(of.graph.value(each, RDFS.label)).casefold() for each in of.classes}
    for one, other in combinations(sorted(of.classes), 2):
        if labels[one] == labels[other]:
            yield f"{of.name(one)} and {of.name(other)} have the same label"


def _unconnected(of: _Ontology) -> Iterator[str]:
    """P04: a term that no other term is related to."""
    for each in of.terms:
        relations = {*of.graph.predicate_objects(each)} - {
            *((RDF.type, kind) for kind in of.graph.objects(each, RDF.type))
        }
        outgoing = any(p in (*_HIERARCHY, RDFS.domain, RDFS.range, OWL.inverseOf, *_EQUIVALENCES) for p, _ in relations)
        incoming = any(p != RDFS.isDefinedBy for _, p in of.graph.subject_predicates(each))
        if not outgoing and not incoming:
            yield f"{of.name(each)} is related to nothing"


def _wrong_inverses(of: _Ontology) -> Iterator[str]:
    """P05: the ends of a property are not those of its inverse turned round."""
    for one, other in of.graph.subject_objects(OWL.inverseOf):
        ends = [(of.members(each, RDFS.domain), of.members(each, RDFS.range)) for each in (one, other)]
        if ends[0] != ends[1][::-1]:
            yield f"{of.name(one)} is no inverse of {of.name(other)}: their ends differ"


def _circles(of: _Ontology) -> Iterator[str]:
    """P06: a class or property that stands above itself."""
    for each in of.terms:
        for predicate in _HIERARCHY:
            if any(
                each in of.graph.transitive_objects(above, predicate) for above in of.graph.objects(each, predicate)
            ):
                yield f"{of.name(each)} stands above itself"


def _annotations(of: _Ontology) -> Iterator[str]:
    """P08: a term without a label or a comment in a language."""
    for each in of.terms:
        for predicate in (RDFS.label, RDFS.comment):
            texts = [text for text in of.graph.objects(each, predicate) if isinstance(text, Literal) and text.language]
            if not any(text.strip() for text in texts):
                yield f"{of.name(each)} has no {of.graph.namespace_manager.qname(predicate)}"


def _disjointness(of: _Ontology) -> Iterator[str]:
    """P10: a class that nothing sets apart from another one: not it, and none above or below it."""
    apart = {each for pair in of.graph.subject_objects(OWL.disjointWith) for each in pair}
    for members in of.graph.objects(None, OWL.members):
        apart |= set(Collection(of.graph, members))
    for each in of.classes:
        family = {
            *of.graph.transitive_objects(each, RDFS.subClassOf),
            *of.graph.transitive_subjects(RDFS.subClassOf, each),
        }
        if not family & apart:
            yield f"{of.name(each)} is disjoint with nothing"


def _ends(of: _Ontology) -> Iterator[str]:
    """P11: a property without a domain or a range."""
    for each in of.properties:
        for predicate in (RDFS.domain, RDFS.range):
            if not of.members(each, predicate):
                yield f"{of.name(each)} has no {of.graph.namespace_manager.qname(predicate)}"


def _several_ends(of: _Ontology) -> Iterator[str]:
    """P19: several domains or ranges, which a reasoner takes together: a subject would have to be of all of them."""
    for each in of.properties:
        for predicate in (RDFS.domain, RDFS.range):
            if len(set(of.graph.objects(each, predicate))) > 1:
                yield f"{of.name(each)} has several of {of.graph.namespace_manager.qname(predicate)}"


def _swapped(of: _Ontology) -> Iterator[str]:
    """P20: label and comment swapped, or one for both."""
    for each in of.terms:
        label, comment = (str(of.graph.value(each, predicate) or "") for predicate in (RDFS.label, RDFS.comment))
        if label and comment and (len(label) >= len(comment) or label.endswith(".")):
            yield f"{of.name(each)} has a label that reads as a comment: {label[:40]!r}"


def _conventions(of: _Ontology) -> Iterator[str]:
    """P22: a class whose name does not begin with an upper case letter, a property whose name does not with a lower one.

    A property may have underscores where it is another name of one that has none.
    """
    for terms, form in ((of.terms - of.properties, r"[A-Z][A-Za-z0-9]*"), (of.properties, r"[a-z][A-Za-z0-9]*")):
        for each in terms:
            if not re.fullmatch(form, of.name(each)) and not _is_other_name(of, each):
                yield f"{of.name(each)} is not named as others of its kind"


def _is_other_name(of: _Ontology, node: Node) -> bool:
    equal = of.graph.value(node, OWL.equivalentProperty)
    words = of.name(node).split("_")
    return equal is not None and re.fullmatch(r"[a-z0-9_]+", of.name(node)) is not None and len(words) > 1


def _recursive(of: _Ontology) -> Iterator[str]:
    """P24: a class that is defined by itself: its equivalent is an expression that names it."""
    for each, expression in of.graph.subject_objects(OWL.equivalentClass):
        open_, reached = [expression], set[Node]()
        while open_:
            node = open_.pop()
            if isinstance(node, BNode) and node not in reached:
                reached.add(node)
                open_ += of.graph.objects(node)
            elif node == each:
                yield f"{of.name(each)} is defined by itself"
                break


def _self_inverse(of: _Ontology) -> Iterator[str]:
    """P25: a property that is the inverse of itself, which owl:SymmetricProperty says."""
    for one, other in of.graph.subject_objects(OWL.inverseOf):
        if one == other:
            yield f"{of.name(one)} is its own inverse"


def _undeclared_equals(of: _Ontology) -> Iterator[str]:
    """P30: two terms with one comment and no equivalence between them."""
    alike: dict[str, list[URIRef]] = {}
    for each in sorted(of.terms):
        alike.setdefault(str(of.graph.value(each, RDFS.comment) or each), []).append(each)
    for one, other in (pair for terms in alike.values() for pair in combinations(terms, 2)):
        if not any((one, p, other) in of.graph or (other, p, one) in of.graph for p in _EQUIVALENCES):
            yield f"{of.name(one)} and {of.name(other)} have one comment, and are not said to be equivalent"


def _wrong_equals(of: _Ontology) -> Iterator[str]:
    """P31: terms that are said to be equivalent and have other ends, are of other kinds, or one stands above the other."""
    for predicate in _EQUIVALENCES:
        for one, other in of.graph.subject_objects(predicate):
            if not (of.is_own(one) and of.is_own(other)):
                continue
            kinds = [set(of.graph.objects(each, RDF.type)) - {OWL.FunctionalProperty} for each in (one, other)]
            ends = [(of.members(each, RDFS.domain), of.members(each, RDFS.range)) for each in (one, other)]
            above = any(
                high in set(of.graph.transitive_objects(low, over)) - {low}
                for over in _HIERARCHY
                for low, high in ((one, other), (other, one))
            )
            if kinds[0] != kinds[1] or ends[0] != ends[1] or above:
                yield f"{of.name(one)} is no equivalent of {of.name(other)}"


def _untyped(of: _Ontology) -> Iterator[str]:
    """P34 and P35: a class or property that is used and not said to be one."""
    used = {each for predicate in of.graph.predicates() for each in [predicate] if of.is_own(each)}
    classes = {
        each
        for predicate in (RDFS.domain, RDFS.range, RDFS.subClassOf)
        for node in of.graph.subjects(predicate)
        for each in of.members(node, predicate)
    }
    for pair in (RDFS.subPropertyOf, OWL.inverseOf, OWL.onProperty):
        used |= set(of.graph.objects(None, pair))
    for each in {*used, *classes}:
        if of.is_own(each) and each not in of.terms:
            yield f"{of.name(each)} is used and has no type"


def _extension(of: _Ontology) -> Iterator[str]:
    """P36: the IRI of the ontology has a file's extension."""
    for each in of.headers():
        if re.search(r"\.(ttl|owl|rdf|xml|n3|nt|jsonld)$", str(each)):
            yield f"<{each}> has a file's extension"


def _declared(of: _Ontology) -> Iterator[str]:
    """P38: no owl:Ontology, or several."""
    if len(of.headers()) != 1:
        yield f"there are {len(of.headers())} of owl:Ontology"


def _ambiguous(of: _Ontology) -> Iterator[str]:
    """P39: the namespace is not that of the ontology, not the preferred one, or ends without # or /."""
    for each in of.headers():
        preferred = {str(uri) for uri in of.graph.objects(each, VANN.preferredNamespaceUri)}
        if preferred != {of.namespace} or of.namespace.rstrip("#/") != str(each) or of.namespace[-1] not in "#/":
            yield f"<{each}> names its namespace as {sorted(preferred)}"


def _hijacked(of: _Ontology) -> Iterator[str]:
    """P40: it says of another one's term what that is: a type, a domain, a range or what stands above it."""
    allowed = {OWL.AnnotationProperty, RDFS.Datatype, OWL.Ontology}
    for each in {node for node in of.graph.subjects() if isinstance(node, URIRef) and not of.is_own(node)}:
        typed = set(of.graph.objects(each, RDF.type)) - allowed
        if typed & {OWL.Class, *_PROPERTIES} or any(
            (each, p, None) in of.graph for p in (*_HIERARCHY, RDFS.domain, RDFS.range)
        ):
            yield f"<{each}> is another one's, and is defined here"


def _licence(of: _Ontology) -> Iterator[str]:
    """P41: no licence, or one that is no IRI."""
    for each in of.headers():
        if not any(isinstance(value, URIRef) for value in of.graph.objects(each, DCTERMS.license)):
            yield f"<{each}> has no licence"


CHECKS: Final[dict[str, Callable[[_Ontology], Iterator[str]]]] = {
    "P02": _synonyms,
    "P04": _unconnected,
    "P05": _wrong_inverses,
    "P06": _circles,
    "P08": _annotations,
    "P10": _disjointness,
    "P11": _ends,
    "P19": _several_ends,
    "P20": _swapped,
    "P22": _conventions,
    "P24": _recursive,
    "P25": _self_inverse,
    "P30": _undeclared_equals,
    "P31": _wrong_equals,
    "P34": _untyped,
    "P36": _extension,
    "P38": _declared,
    "P39": _ambiguous,
    "P40": _hijacked,
    "P41": _licence,
}
