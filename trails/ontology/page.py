"""The page about the ontology: its terms, a picture of its classes, its alignments and example queries, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rdflib import SKOS, Graph, Literal, URIRef

from trails import queries, vocab
from trails.ontology.shapes import short
from trails.ontology.terms import Ontology, Term

_HEAD: Final = """\
<!-- Made from the ontology's files by `python -m trails.ontology`: change those, not this page. -->

# The vocabulary of Trails

`https://w3id.org/trails#`, prefix `trails`: sessions of software agents as chains of immutable turns, with forks that share their
prefix. It extends [PROV-O](https://www.w3.org/TR/prov-o/): what PROV-O has a term for is written with that one.

- [trails.ttl](trails.ttl): the ontology.
- [shapes.ttl](shapes.ttl): the same as SHACL shapes, for checking data.
- [alignments.ttl](alignments.ttl): mappings to other vocabularies.
"""
_EXAMPLES: Final = ("forest", "turns-by-author", "tool-calls")
_NAMESPACES: Final = {
    "sioc": "http://rdfs.org/sioc/ns#",
    "schema": "https://schema.org/",
    "as": "https://www.w3.org/ns/activitystreams#",
    "provone": "http://purl.dataone.org/provone/2015/01/15/ontology#",
}
_MATCHES: Final = {
    SKOS.exactMatch: "exact",
    SKOS.closeMatch: "close",
    SKOS.broadMatch: "wider",
    SKOS.narrowMatch: "narrower",
}


def markdown(ontology: Ontology, alignments: Graph) -> str:
    """Return the page; equal files give equal pages."""
    sections = [
        _HEAD,
        _diagram(ontology),
        _classes(ontology),
        _properties("Edges", "object property", ontology.of("object property")),
        _properties("Values", "datatype property", ontology.of("datatype property")),
        _datatypes(ontology),
        _alignments(alignments),
        _examples(),
    ]
    return "\n".join(sections)


def _diagram(ontology: Ontology) -> str:
    """Return the classes and the edges between them as a Mermaid flowchart."""
    lines = ["## The classes and what leads from one to another", "", "```mermaid", "flowchart LR"]
    for term in ontology.of("class"):
        lines += [f"  {term.name} -. is a .-> {_mermaid(above)}" for above in term.above]
    for term in ontology.of("object property"):
        lines += [
            f"  {_mermaid(start)} -->|{term.name}| {_mermaid(end)}" for start in term.domains for end in term.ranges
        ]
    return "\n".join([*lines, "```", ""])


def _mermaid(iri: str) -> str:
    name = short(iri)
    return name.removeprefix("trails:") if name.startswith("trails:") else f'{name.replace(":", "_")}["{name}"]'


def _classes(ontology: Ontology) -> str:
    rows = [
        (f'<a id="{term.name}"></a>`{term.name}`', _links(term.above), _links(term.one_of), term.comment)
        for term in ontology.of("class")
    ]
    return "## Classes\n\n" + _table(("class", "is a", "has one", "what it is"), rows)


def _properties(title: str, kind: str, found: Iterable[Term]) -> str:
    rows = [
        (
            f'<a id="{term.name}"></a>`{term.name}`',
            _links(term.domains),
            _links(term.ranges) + ("" if term.functional else ", any number"),
            _links(term.above),
            term.comment,
        )
        for term in found
    ]
    heads = ("property", "of", "value", "under", "what it says")
    if kind == "datatype property":
        rows, heads = [(*row[:3], row[4]) for row in rows], (*heads[:3], heads[4])  # type: ignore[assignment, misc] # fewer columns
    return f"## {title}\n\n" + _table(heads, rows)


def _datatypes(ontology: Ontology) -> str:
    return "## Datatypes\n\n" + _table(
        ("datatype", "what it is"), [(f'<a id="{t.name}"></a>`{t.name}`', t.comment) for t in ontology.of("datatype")]
    )


def _links(iris: Iterable[str]) -> str:
    """Return terms as links: ours to this page, PROV-O's to its own."""
    return ", ".join(_link(iri) for iri in iris)


def _link(iri: str) -> str:
    if iri.startswith(vocab.TRAILS):
        name = iri.removeprefix(vocab.TRAILS)
        return f"[{name}](#{name})"
    if iri.startswith(vocab.PROV):
        return f"[{short(iri)}](https://www.w3.org/TR/prov-o/#{iri.removeprefix(vocab.PROV)})"
    return f"`{short(iri)}`"


def _alignments(graph: Graph) -> str:
    names = {
        URIRef(f"https://w3id.org/trails/notation/{key}"): label
        for key, label in (("opentelemetry", "OpenTelemetry"), ("prov-agent", "PROV-AGENT"))
    }
    rows = []
    for term in sorted({str(each) for each in graph.subjects() if str(each).startswith(vocab.TRAILS)}):
        said = [
            (f"`{_elsewhere(str(other))}`", how)
            for predicate, how in _MATCHES.items()
            for other in graph.objects(URIRef(term), predicate)
        ]
        said += [
            (f"`{each}`", names[each.datatype])
            for each in graph.objects(URIRef(term), SKOS.notation)
            if isinstance(each, Literal) and each.datatype is not None
        ]
        rows.append((_link(term), ", ".join(f"{name} ({how})" for name, how in sorted(said))))
    text = "## What others call them\n\nHow near each is stands behind it; for names without an IRI, who uses them.\n\n"
    return text + _table(("term", "elsewhere"), rows)


def _elsewhere(iri: str) -> str:
    for prefix, namespace in _NAMESPACES.items():
        if iri.startswith(namespace):
            return f"{prefix}:{iri.removeprefix(namespace)}"
    return iri


def _examples() -> str:
    parts = ["## Example queries\n\nOf the catalogue (`trails queries`); each runs as it stands over an export.\n"]
    for name in _EXAMPLES:
        query = queries.find(name)
        parts.append(f"### {name}: {query.purpose}\n\n```sparql\n{query.text.rstrip()}\n```\n")
    return "\n".join(parts)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
