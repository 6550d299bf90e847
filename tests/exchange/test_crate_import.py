"""RO-Crates that come in: a pack of our own brings its sessions back, another crate the provenance of its actions."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import trails
from tests.support.nine_sessions import fill
from trails import Repository
from trails.audit import audit, evidence_pack
from trails.cli import main
from trails.errors import InvalidInput
from trails.exchange import rdf_files
from trails.exchange.crate_import import import_crate
from trails.provenance import document_bytes, read_document
from trails.provenance.crate_reader import crate_content, has_records

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)

FOREIGN: dict[str, Any] = {
    "@context": "https://w3id.org/ro/crate/1.1/context",
    "@graph": [
        {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "about": {"@id": "./"}},
        {"@id": "./", "@type": "Dataset", "hasPart": [{"@id": "pics/one two.png"}], "mentions": {"@id": "#sepia"}},
        {
            "@id": "#sepia",
            "@type": "CreateAction",
            "name": "Make it sepia",
            "startTime": "2026-04-01T12:00:00Z",
            "endTime": "2026-04-01T12:05:00Z",
            "actionStatus": "http://schema.org/CompletedActionStatus",
            "agent": {"@id": "https://orcid.org/0000-0001"},
            "instrument": {"@id": "https://imagemagick.org/"},
            "object": [{"@id": "pics/one two.png"}],
            "result": {"@id": "pics/sepia.png"},
        },
        {"@id": "#look", "@type": "ActivateAction", "endTime": "2026-04-02", "object": "the picture", "result": []},
        {"@id": "https://orcid.org/0000-0001", "@type": "Person", "name": "Ann"},
        {"@id": "https://imagemagick.org/", "@type": "SoftwareApplication", "version": "7"},
        {"@id": "pics/one two.png", "@type": "File", "author": {"@id": "#bob"}},
        {"@id": "pics/sepia.png", "@type": "File", "isBasedOn": {"@id": "pics/one two.png"}},
        {"@id": "#bob", "@type": "Person", "name": "Bob"},
    ],
}


def packed(store: Repository) -> dict[str, bytes]:
    return evidence_pack.make_pack(store, audit(store, time=NOON))


def exported(store: Repository, session: str) -> bytes:
    out = io.BytesIO()
    rdf_files.export_session(store, session, "nquads", out)
    return out.getvalue()


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    place = tmp_path / "sepia"
    place.mkdir()
    (place / "ro-crate-metadata.json").write_text(json.dumps(FOREIGN))
    return place


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "zip", "metadata"])
def test_the_sessions_of_a_pack_come_back_as_they_were(memory: Repository, tmp_path: Path, form: str) -> None:
    fill(memory)
    place = tmp_path / ("pack.zip" if form == "zip" else "pack")
    evidence_pack.write_pack(packed(memory), place, NOON.isoformat())
    with trails.open(":memory:") as other:
        came = import_crate(other, place / "ro-crate-metadata.json" if form == "metadata" else place)
        assert (came.document, came.sessions is not None and came.sessions.problems) == (None, [])
        for session in ("plan", "dinner", "solo", "tail"):
            assert exported(other, session) == exported(memory, session)
        assert other.verify().ok
        again = import_crate(other, tmp_path / place.name).sessions
        assert again is not None
        assert (again.turns_added, sorted(again.sessions_created)) == (0, [])


def test_a_pack_without_its_records_is_refused(memory: Repository, tmp_path: Path) -> None:
    fill(memory)
    evidence_pack.write_pack(packed(memory), tmp_path / "pack", NOON.isoformat())
    (tmp_path / "pack" / "records.nq").unlink()
    with trails.open(":memory:") as other:
        with pytest.raises(InvalidInput, match=r"records\.nq, which is not there"):
            import_crate(other, tmp_path / "pack")
        assert [each.id for each in other.list()] == []


def test_the_actions_of_another_crate_become_prov(memory: Repository, crate: Path) -> None:
    came = import_crate(memory, crate)
    assert came.document is not None
    assert (came.document.valid, came.document.name, came.sessions) == (True, "sepia", None)
    said = {each.to_provn() for each in read_document(memory, came.document.iri).bundles[0].statements}
    [base] = {
        each.split("#sepia")[0].removeprefix("activity(")
        for each in said
        if each.startswith("activity(arcp") and "#sepia" in each
    }
    plain = {each.replace(base, "") for each in said}
    assert plain == {
        "activity(#sepia, 2026-04-01T12:00:00Z, 2026-04-01T12:05:00Z)",
        "activity(#look, -, -)",
        "used(#sepia, pics/one%20two.png, -)",
        "wasGeneratedBy(pics/sepia.png, #sepia, -)",
        "wasAssociatedWith(#sepia, https://orcid.org/0000-0001, https://imagemagick.org/)",
        "agent(https://orcid.org/0000-0001)",
        "entity(https://imagemagick.org/)",
        "entity(pics/one%20two.png)",
        "entity(pics/sepia.png)",
        "wasDerivedFrom(pics/sepia.png, pics/one%20two.png, -, -, -)",
        "wasAttributedTo(pics/one%20two.png, #bob)",
        "agent(#bob)",
    }
    rows = memory.select("SELECT ?a { ?a a prov:Activity ; prov:used ?e . ?e prov:wasAttributedTo ?who }")
    assert [row["a"].endswith("#sepia") for row in rows.to_dicts()] == [True]


def test_what_prov_has_no_place_for_is_counted_and_the_file_is_kept(memory: Repository, crate: Path) -> None:
    came = import_crate(memory, crate)
    assert came.left_out == {
        "actionStatus": 1,
        "endTime that is no time": 1,
        "entities that no action refers to": 2,
        "object without a name": 1,
        "version": 1,
    }
    assert came.document is not None
    assert document_bytes(memory, came.document.iri) == (crate / "ro-crate-metadata.json").read_bytes()


def test_a_zip_of_another_crate_is_read_by_its_metadata_alone(memory: Repository, crate: Path, tmp_path: Path) -> None:
    (crate / "pics").mkdir()
    (crate / "pics" / "one two.png").write_bytes(b"png")
    place = Path(shutil.make_archive(str(tmp_path / "sepia"), "zip", tmp_path, "sepia"))
    came = import_crate(memory, place)
    assert came.document is not None
    assert (came.document.name, came.document.statements) == ("sepia.zip", 12)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{}", "has no @graph"),
        (b'{"@graph": [{"@type": "Dataset"}]}', "has no @graph"),
        (b'{"@graph": [{"@id": "a"}, {"@id": "a"}]}', "describes an entity twice"),
        (b'{"@graph": [{"@id": "./", "@type": "Dataset"}]}', "has no action"),
        (b"not JSON", "JSON"),
    ],
)
def test_what_is_no_crate_with_actions_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        crate_content(text)


def test_another_crate_cannot_name_a_file_elsewhere_as_its_records() -> None:
    entity = {
        "@id": "../../secret.nq",
        "encodingFormat": "application/n-quads",
        "conformsTo": {"@id": "https://w3id.org/trails#"},
    }
    assert not has_records(json.dumps({"@graph": [entity]}).encode())
    assert has_records(json.dumps({"@graph": [{**entity, "@id": "records.nq"}]}).encode())


def test_a_folder_and_a_zip_without_metadata_are_refused(memory: Repository, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is no RO-Crate: it holds no"):
        import_crate(memory, tmp_path)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as made:
        made.writestr("a.txt", "")
    with pytest.raises(InvalidInput, match=r"is no RO-Crate: it holds no ro-crate-metadata\.json"):
        import_crate(memory, tmp_path / "empty.zip")


def test_the_command_line_takes_both(
    memory: Repository, crate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    fill(memory)
    evidence_pack.write_pack(packed(memory), tmp_path / "pack.zip", NOON.isoformat())
    how = ["import", "--format", "ro-crate", "--create", "pack.zip", "sepia"]
    done = CliRunner().invoke(main, [*how, "--json"], catch_exceptions=False)
    said = json.loads(done.stdout)
    assert (done.exit_code, "plan" in said["sessions"]["sessions_created"]) == (0, True)
    assert ([each["name"] for each in said["documents"]], said["left_out"]["version"]) == (["sepia"], 1)
    again = CliRunner().invoke(main, [*how[:3], "sepia"], catch_exceptions=False)
    assert "left out: version, 1" in again.stdout
