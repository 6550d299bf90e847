"""Make the page of the ontology fit narrow windows: `make ontology-page` runs this on what pyLODE writes.

pyLODE sets its list of contents beside the text at any width, lets examples run out of their frames, and names no viewport.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ontology.generate import load_ontology
from trails.rdf import vocab

STYLE: Final = """\
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  pre, code { white-space: pre-wrap; overflow-wrap: anywhere; }
  .entity table { table-layout: fixed; width: 100%; }
  td, dd, dd a { overflow-wrap: anywhere; }
  @media (max-width: 800px) {
    body { padding: 1em; }
    #pylode { display: none; }
    #toc, .toc { position: static !important; width: auto !important; height: auto !important; max-height: 40vh; overflow: auto; }
    #content { margin: 0 !important; width: auto !important; max-width: 100% !important; }
    dd { margin-left: 1em; }
    .entity th, .entity td { display: block; width: auto; padding-bottom: 6px; }
    h2 { margin-top: 20px; }
  }
</style>
"""


def fitted(page: str) -> str:
    """Return a page of pyLODE with the style; raise `ValueError` for what is no page of it.

    >>> fitted("<head></head><body><div id='content'></div></body>").startswith("<head><meta name=")
    True
    """
    if page.count("</head>") != 1:
        raise ValueError("the page has not one </head>: pyLODE writes otherwise than it did")
    return page.replace("</head>", f"{STYLE}</head>")


def missing(page: str, names: Iterable[str]) -> list[str]:
    """Return the terms, by their names after the namespace, that a page does not show.

    >>> missing("<code>https://w3id.org/trails#index</code>", ["index", "role"])
    ['role']
    """
    return [name for name in names if f"<code>{vocab.TRAILS}{name}</code>" not in page]


def main(place: Path) -> None:
    """Fit the page that stands at a place; raise `ValueError` where a term of the ontology is not on it."""
    page = place.read_text("utf-8")
    if lost := missing(page, [term.name for term in load_ontology().terms if term.kind != "datatype"]):
        raise ValueError(f"{place} does not show {', '.join(lost)}")
    place.write_text(fitted(page), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
