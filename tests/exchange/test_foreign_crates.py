"""Crates that the package rocrate wrote, by five shapes of others: what comes in, and that every loss is named."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from trails import Repository
from trails.exchange.crate_import import import_crate
from trails.provenance import read_document
from trails.provenance.crate_reader import read_crate
from trails.provenance.statements import TYPE

FOLDER = Path(__file__).parents[1] / "support" / "crates"
"""Written by `tests/support/foreign_crates.py`."""
COUNTED = {
    "workflow-run": (
        "activity 1 agent 1 entity 4 used 2 wasAssociatedWith 1 wasGeneratedBy 1",
        (
            "actionStatus 1, encodingFormat 1, entities that no action refers to 9, exampleOfWork 3, input 1, output 1, "
            "programmingLanguage 1, value 1"
        ),
    ),
    "provenance-run": (
        "activity 4 agent 1 entity 8 used 3 wasAssociatedWith 4 wasGeneratedBy 2",
        (
            "actionStatus 1, encodingFormat 1, entities that no action refers to 10, exampleOfWork 3, hasPart 1, input 1, "
            "object that is an action 2, output 1, position 1, programmingLanguage 1, result that is an action 1, step 1, "
            "value 1, workExample 1"
        ),
    ),
    "process-run": (
        "activity 2 agent 2 entity 3 used 2 wasAssociatedWith 3 wasGeneratedBy 1",
        (
            "actionStatus 2, containerImage 1, description 1, endTime that is no time 1, entities that no action refers to 5, "
            "environment 1, error 1, softwareVersion 1"
        ),
    ),
    "photograph": (
        "activity 2 agent 1 entity 3 used 1 wasAssociatedWith 2 wasAttributedTo 1 wasGeneratedBy 1",
        "affiliation 1, agent without a name 1, contentLocation 1, entities that no action refers to 4",
    ),
    "remote-data": (
        "activity 1 agent 1 entity 2 used 1 wasAttributedTo 1 wasDerivedFrom 1 wasGeneratedBy 1",
        (
            "author without a name 1, entities that no action refers to 2, instrument without a name 1, participant 1, "
            "startTime that is no time 1"
        ),
    ),
}
"""Counted by hand in the metadata: the statements of each kind, and what is left out."""


@pytest.mark.parametrize("name", COUNTED)
def test_what_a_crate_says_comes_in_as_valid_prov_and_what_is_left_out_is_named(
    memory: Repository, tmp_path: Path, name: str
) -> None:
    (tmp_path / "ro-crate-metadata.json").write_bytes((FOLDER / f"{name}.json").read_bytes())
    came = import_crate(memory, tmp_path)
    assert came.document is not None
    assert came.document.valid
    [bundle] = read_document(memory, came.document.iri).bundles
    kinds = sorted(Counter(each.kind for each in bundle.statements).items())
    said = " ".join(f"{kind} {count}" for kind, count in kinds)
    lost = ", ".join(f"{what} {count}" for what, count in sorted(came.left_out.items()))
    assert (said, lost) == COUNTED[name]


def types_of(name: str, ending: str) -> set[str]:
    """Return the types of the one thing of a crate whose name ends so."""
    statements = read_crate((FOLDER / f"{name}.json").read_bytes()).bundles[0].statements
    [found] = [each for each in statements if each.kind in ("entity", "activity") and (each.id or "").endswith(ending)]
    return {value.text for attribute, value in found.attributes if attribute == TYPE}


def test_a_type_is_the_one_of_the_crate_s_context_or_of_its_own() -> None:
    assert types_of("workflow-run", "/packed.cwl") == {
        "http://schema.org/MediaObject", "http://schema.org/SoftwareSourceCode", "https://bioschemas.org/ComputationalWorkflow",
    }  # fmt: skip
    assert types_of("remote-data", "/d/") == {
        "http://schema.org/Dataset", "http://pcdm.org/models#Object", "https://example.com/terms#Sheet",
    }  # fmt: skip
    assert types_of("remote-data", "2f7f7f") == {"http://schema.org/CreateAction", "http://www.w3.org/ns/prov#Activity"}
    assert types_of("photograph", "#edit") == {"http://schema.org/UpdateAction", "https://example.com/terms#Retouch"}


def test_the_prefixes_of_a_crate_stand_for_what_its_context_says() -> None:
    crate = (
        b'{"@context": ["https://w3id.org/ro/crate/1.2/context", {"ex": "https://example.com/", "dct": "https://other.example/"}],'
        b'"@graph": [{"@id": "ex:run", "@type": ["CreateAction", "dct:Thing"], "object": {"@id": "foaf:x"}}]}'
    )
    text = read_crate(crate)
    said = [each.to_provn() for each in text.bundles[0].statements]
    assert said[0].startswith("activity(https://example.com/run, -, -")
    assert re.search("used.https://example.com/run, http://xmlns.com/foaf/0.1/x, -.", said[1])
