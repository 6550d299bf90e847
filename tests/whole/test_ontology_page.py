"""The page for people that pyLODE writes: `make ontology-page` fits it to narrow windows and looks for every term on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontology.generate import load_ontology
from ontology.page import fitted, main, missing

HEAD = "<html><head><title>Trails</title></head><body>"


def page_of(names: list[str]) -> str:
    return HEAD + "".join(f"<code>https://w3id.org/trails#{name}</code>" for name in names) + "</body></html>"


def terms() -> list[str]:
    return [term.name for term in load_ontology().terms if term.kind != "datatype"]


def test_a_page_gets_a_viewport_and_rules_for_narrow_windows_and_keeps_all_else(tmp_path: Path) -> None:
    place = tmp_path / "index.html"
    before = page_of(terms())
    place.write_text(before, "utf-8")
    main(place)
    after = place.read_text("utf-8")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in after
    assert "@media (max-width: 800px)" in after
    assert after.startswith("<html><head><title>Trails</title><meta")
    assert after.endswith(before.partition("</head>")[2])


def test_a_page_without_a_term_is_refused_with_the_terms_that_it_lacks(tmp_path: Path) -> None:
    place = tmp_path / "index.html"
    place.write_text(page_of([name for name in terms() if name not in ("Turn", "index")]), "utf-8")
    with pytest.raises(ValueError, match="does not show Turn, index"):
        main(place)


def test_a_page_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="has not one </head>"):
        fitted("<p>Not Found</p>")


def test_a_term_whose_name_only_begins_another_ones_is_missing() -> None:
    assert missing("<code>https://w3id.org/trails#indexed</code>", ["index"]) == ["index"]
