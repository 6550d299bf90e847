"""The picture of each ready-made query, from the query itself: boxes are variables, arrows what is asked of them.

`python -m tests.support.query_pictures` writes `queries/README.md`, which has the pictures as Mermaid, and those of
the console as SVG: these are laid out by Graphviz (`dot`), which is needed for nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from pyparsing import ParseResults
from rdflib.paths import Path as PropertyPath
from rdflib.plugins.sparql.algebra import translatePath, translatePName, translatePrologue, traverse, triples
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import Identifier, Literal, URIRef, Variable

import trails
from tests.support.places import ROOT
from trails.rdf import query_files, vocab

_TYPE: Final = URIRef(vocab.TYPE.value)
PAGE: Final = ROOT / "queries" / "README.md"
SVG: Final = Path(trails.__file__).parent / "serve" / "console" / "static" / "queries"
_BEGINNING: Final = """# The queries, one by one

Read what each ready-made query asks, in plain words, with a picture of its pattern.

`trails queries` lists them, `trails queries NAME` prints one, and `trails query NAME` asks it.

- A box is a variable, with the classes that it must have. A yellow box is a parameter.
- An arrow is a property, or a path of several: `*` for none or more, `+` for one or more, `^` for backwards, `|` for "or".
- A dashed arrow may be missing (`OPTIONAL`), and a red one must not be there (`NOT EXISTS`, `MINUS`).
- A grey arrow, "holds", leads from a graph to what is said there.
- The alternatives of a `UNION` stand in one picture. What is compared, counted and sorted is in the text of the query.
"""
_GIVEN: Final = " (given)"
_SMALL: Final = 16
"""With more boxes than these, a value that nothing else is asked of is a line in the box that it belongs to."""
_COLOURS: Final = {"absent": "#c00000", "holds": "#999999"}
_KINDS: Final = {"OptionalGraphPattern": "optional"} | dict.fromkeys(
    ("MinusGraphPattern", "Builtin_NOTEXISTS"), "absent"
)
"""In which way the parts of a node of rdflib's tree are asked for, where it is another than that of the node."""
_MARKED: Final = re.compile(r"(?:VALUES \?(\w+) \{.*|.*?(<[^<>\s=]*>|(?<![\w?:.-])\d+\b)[^<>]*?)#: (\w+)$")


@dataclass(frozen=True, slots=True, order=True)
class Arrow:
    """What is asked of two boxes: a predicate or a path, or that one is a graph that holds statements about the other."""

    source: str
    label: str
    target: str
    kind: str
    """asked, optional, absent (must not be there) or holds."""


@dataclass(slots=True)
class Pattern:
    """The pattern of a query: its boxes, with the classes that are asked for, and its arrows, each once."""

    classes: dict[str, list[str]] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)

    def add(self, arrow: Arrow) -> None:
        """Add an arrow unless it, or one that asks for the same without condition, is there."""
        asked = {Arrow(arrow.source, arrow.label, arrow.target, kind) for kind in ("asked", "holds")}
        if arrow not in self.arrows and not (arrow.kind == "optional" and asked & set(self.arrows)):
            self.arrows.append(arrow)
        for box in (arrow.source, arrow.target):
            self.classes.setdefault(box, [])


@cache
def pattern(query: query_files.QueryFile) -> Pattern:
    """Return the pattern of a query: of all its alternatives together, as a reader would draw it on one sheet."""
    found = Pattern()
    names = _parameters(query)
    for (one, two, three), graph, kind in _triples(_tree(query), None, "asked"):
        source = _box(one, names)
        if two == _TYPE and not isinstance(three, Variable) and kind == "asked":
            kinds = found.classes.setdefault(source, [])
            kinds += [name for name in [_short(three)] if name not in kinds]
        else:
            found.add(Arrow(source, "a" if two == _TYPE else _short(two), _box(three, names), kind))
        if graph is not None and _box(graph, names) != source:
            found.add(Arrow(_box(graph, names), "holds", source, "holds" if kind == "asked" else kind))
    return found


def _tree(query: query_files.QueryFile) -> Any:
    """Return a query as rdflib parses it, its names and paths resolved: the algebra made of it drops some nested filters."""
    prologue, tree = parseQuery(query.text)
    named = traverse(tree, visitPost=partial(translatePName, prologue=translatePrologue(prologue, None)))
    return traverse(named, visitPost=translatePath)


def _triples(node: Any, graph: Identifier | None, kind: str) -> Iterator[tuple[Any, Identifier | None, str]]:
    """Yield each triple pattern of a tree, the graph that it is asked of, and in which way."""
    if isinstance(node, CompValue):
        if node.name == "TriplesBlock":
            yield from ((triple, graph, kind) for triple in triples(node.triples))
        else:
            graph = node.term if node.name == "GraphGraphPattern" else graph
            for name in (name for name in node if name != "template"):
                yield from _triples(node[name], graph, _KINDS.get(node.name, kind) if kind != "absent" else kind)
    elif isinstance(node, list | tuple | ParseResults):
        for each in node:
            yield from _triples(each, graph, kind)


def _parameters(query: query_files.QueryFile) -> dict[str, str]:
    """Return which parameter stands in the file as which constant or variable."""
    names: dict[str, str] = {}
    for line in query.text.splitlines():
        if marked := _MARKED.match(line.strip()):
            variable, constant, name = marked.groups()
            names[f"?{variable}" if variable else constant.strip("<>")] = name
    return names


def _box(term: Identifier, names: dict[str, str]) -> str:
    text = f"?{term}" if isinstance(term, Variable) else str(term)
    if text in names:
        return names[text] + _GIVEN
    return text if isinstance(term, Variable) else _short(term)


def _short(term: Any) -> str:
    """Return a term or a path as a reader writes it: trails' own names without a prefix."""
    text = term.n3() if isinstance(term, PropertyPath | URIRef) else str(term)
    if isinstance(term, Literal):
        return f'"{term}"' if term.datatype is None else str(term)
    for prefix, namespace in vocab.PREFIXES.items():
        text = re.sub(rf"<{re.escape(namespace)}([\w-]+)>", r"\1" if prefix == "trails" else rf"{prefix}:\1", text)
    return text


def _lines(shown: Pattern) -> dict[str, list[str]]:
    """Return what stands in each box: its name, its classes, and in a large picture the values that nothing else is asked of."""
    lines = {box: [box, *classes] for box, classes in shown.classes.items()}
    if len(lines) <= _SMALL:
        return lines
    for box in list(shown.classes):
        touching = [arrow for arrow in shown.arrows if box in (arrow.source, arrow.target)]
        if len(touching) == 1 and touching[0].target == box and touching[0].kind == "asked" and len(lines[box]) == 1:
            lines[touching[0].source].append(f"{touching[0].label} {box}")
            del lines[box]
    return lines


# --- as Mermaid and as SVG


def mermaid(query: query_files.QueryFile) -> str:
    """Return the picture as a Mermaid flowchart."""
    shown = pattern(query)
    boxes = _lines(shown)
    numbers = {box: f"n{number}" for number, box in enumerate(boxes)}
    arrows = [arrow for arrow in shown.arrows if arrow.source in boxes and arrow.target in boxes]
    lines = ["flowchart LR"]
    for box, texts in boxes.items():
        look = ":::given" if box.endswith(_GIVEN) else ""
        lines.append(f"  {numbers[box]}[{_quoted('<br/>'.join(texts))}]{look}")
    for arrow in arrows:
        line = "-.->" if arrow.kind == "optional" else "-->"
        lines.append(f"  {numbers[arrow.source]} {line}|{_quoted(arrow.label)}| {numbers[arrow.target]}")
    for kind, colour in _COLOURS.items():
        places = [str(number) for number, arrow in enumerate(arrows) if arrow.kind == kind]
        if places:
            lines.append(f"  linkStyle {','.join(places)} stroke:{colour},color:{colour}")
    if any(box.endswith(_GIVEN) for box in boxes):
        lines.append("  classDef given fill:#fff2b3,stroke:#b08000")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'


def dot(query: query_files.QueryFile) -> str:
    """Return the picture in the language of Graphviz, which lays it out."""
    shown = pattern(query)
    boxes = _lines(shown)
    lines = [
        "digraph {",
        '  rankdir=LR; node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif", fontsize=11];',
        '  edge [fontname="sans-serif", fontsize=9];',
    ]
    for box, texts in boxes.items():
        look = ', fillcolor="#fff2b3"' if box.endswith(_GIVEN) else ""
        lines.append(f"  {json.dumps(box)} [label={json.dumps(chr(10).join(texts))}{look}];")
    for arrow in shown.arrows:
        if arrow.source in boxes and arrow.target in boxes:
            colour = _COLOURS.get(arrow.kind, "#222222")
            style = "dashed" if arrow.kind == "optional" else "solid"
            ends = f"{json.dumps(arrow.source)} -> {json.dumps(arrow.target)}"
            lines.append(
                f'  {ends} [label={json.dumps(arrow.label)}, style={style}, color="{colour}", fontcolor="{colour}"];'
            )
    return "\n".join([*lines, "}", ""])


def svg_is_current(query: query_files.QueryFile, text: str) -> bool:
    """Tell whether an SVG was made from the query as it is: its first line names the digest of what Graphviz laid out."""
    return text.startswith(_stamp(query))


def _stamp(query: query_files.QueryFile) -> str:
    return f"<!-- {hashlib.sha256(dot(query).encode()).hexdigest()} -->\n"


def _svg(query: query_files.QueryFile) -> str:
    made = subprocess.run(["dot", "-Tsvg"], input=dot(query), capture_output=True, text=True, check=True).stdout
    return _stamp(query) + re.sub(
        r"<!--.*?-->\n?|<title>.*?</title>\n?", "", made[made.index("<svg") :], flags=re.DOTALL
    )


# --- the page


def section(query: query_files.QueryFile) -> str:
    """Return what the page says of a query."""
    names = ", ".join(f"[{each.name}]" if each.optional else each.name for each in query.parameters)
    given = f" Parameters: {names}." if names else ""
    purpose = query.purpose[:1].upper() + query.purpose[1:]
    return f"\n### {query.name}\n\n*{purpose}.*{given}\n\n{query.about}\n\n```mermaid\n{mermaid(query)}```\n"


def page() -> str:
    """Return the whole page: the queries for everybody, then those for auditors by theme."""
    parts = [_BEGINNING, "\n## For everybody\n"]
    parts += [section(query) for query in query_files.catalogue().values() if not query.theme]
    for theme, about in query_files.THEMES.items():
        parts.append(f"\n## {theme.capitalize()}: {about}\n")
        parts += [section(query) for query in query_files.by_theme(theme).values()]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    SVG.mkdir(exist_ok=True)
    for old in SVG.glob("*.svg"):
        if not query_files.exists(old.stem):
            old.unlink()
    for each in query_files.catalogue().values():
        place = SVG / f"{each.name}.svg"
        if not (place.exists() and svg_is_current(each, place.read_text("utf-8"))):
            place.write_text(_svg(each), "utf-8")
    sys.stdout.write(f"{PAGE}\n{SVG}\n")
