"""`python -m trails.ontology`: make again what is made from the ontology, beside it: its shapes and the page about it."""

from __future__ import annotations

from pathlib import Path

from rdflib import Graph

from trails.ontology import page, shapes, terms


def made() -> dict[str, str]:
    """Return the files that are made from `trails.ttl` and `alignments.ttl`, by name."""
    ontology = terms.load()
    alignments = Graph().parse(terms.folder() / "alignments.ttl", format="turtle")
    return {"shapes.ttl": shapes.turtle(ontology), "README.md": page.markdown(ontology, alignments)}


def write(folder: Path) -> None:
    """Write those files into a folder."""
    for name, text in made().items():
        (folder / name).write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    write(terms.folder())
