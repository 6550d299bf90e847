"""The formats of triples, by the names that commands and the SPARQL endpoint have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyoxigraph as ox

FORMATS: Final[Mapping[str, ox.RdfFormat]] = {
    "turtle": ox.RdfFormat.TURTLE,
    "ntriples": ox.RdfFormat.N_TRIPLES,
    "jsonld": ox.RdfFormat.JSON_LD,
    "rdfxml": ox.RdfFormat.RDF_XML,
    "n3": ox.RdfFormat.N3,
}
