"""Write crates as other programs do: `python foreign_crates.py`, by an interpreter that has the package rocrate (`make crates`).

It writes the metadata of each into `tests/support/crates/`. The shapes are those of the profiles' pages: Workflow Run Crate,
Provenance Run Crate, Process Run Crate, and the photograph and the remote data of RO-Crate's own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

FOLDER = Path(__file__).with_name("crates")
_RUN = "https://w3id.org/ro/wfrun/"


def entity(crate: Any, iri: str, kind: Any, **properties: Any) -> Any:
    made = crate.add(ContextEntity(crate, iri, properties={"@type": kind}))
    for each, value in properties.items():
        made[each] = value
    return made


def file(crate: Any, folder: Path, path: str, **properties: Any) -> Any:
    source = folder / path
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(path)
    return crate.add_file(source, path, properties=properties)


def conforms(crate: Any, *names: str) -> None:
    crate.root_dataset["conformsTo"] = [
        entity(crate, f"{_RUN}{name}/0.5", "CreativeWork", name=f"{name} run crate", version="0.5") for name in names
    ]


def workflow_run(crate: Any, folder: Path) -> None:
    conforms(crate, "process", "workflow")
    (folder / "packed.cwl").write_text("cwlVersion: v1.2")
    workflow = crate.add_workflow(folder / "packed.cwl", "packed.cwl", main=True, lang="cwl")
    read, number, made = (
        entity(crate, f"packed.cwl#main/{name}", "FormalParameter", additionalType=kind, name=name)
        for name, kind in (("in", "File"), ("n", "Integer"), ("out", "File"))
    )
    workflow["input"], workflow["output"] = [read, number], made
    one = file(crate, folder, "in put.txt", encodingFormat="text/plain")
    two = file(crate, folder, "results/out.txt")
    value = entity(crate, "#n", "PropertyValue", name="n", value="42")
    for each, parameter in ((one, read), (two, made), (value, number)):
        each["exampleOfWork"] = parameter
    who = entity(crate, "https://orcid.org/0000-0001-6565-5145", "Person", name="Simone Leo")
    crate.root_dataset["mentions"] = entity(
        crate, "#run", "CreateAction", name="Run of packed.cwl", instrument=workflow, object=[one, value], result=two, agent=who,
        startTime="2018-10-25T15:46:35.211153", endTime="2018-10-25T15:46:43.020168",
        actionStatus="http://schema.org/CompletedActionStatus",
    )  # fmt: skip


def provenance_run(crate: Any, folder: Path) -> None:
    workflow_run(crate, folder)
    conforms(crate, "process", "workflow", "provenance")
    workflow = crate.mainEntity
    tool = entity(crate, "packed.cwl#tool", "SoftwareApplication", name="rev")
    step = entity(crate, "packed.cwl#main/rev", "HowToStep", position="0", workExample=tool)
    workflow["hasPart"], workflow["step"] = tool, step
    between = file(crate, folder, "between.txt")
    call = entity(
        crate, "#call", "CreateAction", name="Run of rev", instrument=tool, object=crate.get("in%20put.txt"), result=between,
        startTime="2018-10-25T15:46:36+00:00",
    )  # fmt: skip
    control = entity(crate, "#control", "ControlAction", name="orchestrate rev", instrument=step, object=call)
    engine = entity(crate, "#cwltool", "SoftwareApplication", name="cwltool")
    entity(
        crate,
        "#organize",
        "OrganizeAction",
        name="Run of cwltool",
        instrument=engine,
        object=control,
        result=crate.get("#run"),
    )


def process_run(crate: Any, folder: Path) -> None:
    conforms(crate, "process")
    one, two = (file(crate, folder, name) for name in ("a.svg", "b.png"))
    tool = entity(
        crate, "https://www.imagemagick.org/", "SoftwareApplication", name="ImageMagick", softwareVersion="6.9.7-4"
    )
    home = entity(crate, "#home", "PropertyValue", name="HOME", value="/root")
    image = entity(crate, "#image", "ContainerImage", registry="docker.io", name="dpokidov/imagemagick", tag="7.1")
    who, lab = (
        entity(crate, "#bob", "Person", name="Bob"),
        entity(crate, "https://ror.org/0abc", "Organization", name="Lab"),
    )
    done = entity(
        crate, "#convert", "CreateAction", name="Convert", description="convert a.svg b.png", instrument=tool, object=one,
        result=two, agent=[who, lab], environment=home, containerImage=image, endTime="2024-05-17T01:04:52+01:00",
        actionStatus="http://schema.org/CompletedActionStatus",
    )  # fmt: skip
    failed = entity(
        crate, "#show", "ActivateAction", name="Show", instrument=tool, object=two, agent=who, endTime="2024-05-18",
        error="no display", actionStatus="http://schema.org/FailedActionStatus",
    )  # fmt: skip
    crate.root_dataset["mentions"] = [done, failed]


def photograph(crate: Any, folder: Path) -> None:
    place = entity(crate, "http://sws.geonames.org/8152662/", "Place", name="Catalina Park")
    picture = file(crate, folder, "pics/Müßen 1.jpg", name=["Bay", "Bucht"], contentLocation=place)
    camera = entity(crate, "https://www.olympus.example/epl1", "IndividualProduct", name="EPL1")
    lens = entity(crate, "#lens", "IndividualProduct", name="Lens")
    home = entity(crate, "https://ror.org/03f0f6041", "Organization", name="UTS")
    who = entity(crate, "https://orcid.org/0000-0002-3545-944X", "Person", name="Peter Sefton", affiliation=home)
    picture["author"] = who
    entity(
        crate, "#capture", "CreateAction", name="Capture", agent=who, instrument=[camera, lens], result=picture,
        endTime="2017-06-11T12:56:14+10:00",
    )  # fmt: skip
    kinds = ["UpdateAction", "https://example.com/terms#Retouch"]
    entity(crate, "#edit", kinds, name="Retouch", object=picture, agent="Peter")


def remote_data(crate: Any, folder: Path) -> None:
    (folder / "d").mkdir()
    consortium = entity(crate, "https://ror.org/1", "Organization", name="Consortium")
    source = crate.add_file(
        "https://zenodo.example/records/1/files/x.csv?download=1", properties={"author": "nobody known"}
    )
    table = crate.add_dataset(folder / "d", "d/", properties={"@type": ["Dataset", "RepositoryObject", "Sheet"]})
    table["isBasedOn"], table["creator"] = source, [consortium]
    crate.metadata.extra_terms["Sheet"] = "https://example.com/terms#Sheet"
    entity(
        crate, "urn:uuid:4f2f43a0-6c2b-4b0e-9d3e-0f1d7a2f7f7f", ["CreateAction", "prov:Activity"], name="Made", object=source,
        result=[table], instrument="by hand", participant=consortium, startTime="yesterday",
    )  # fmt: skip


CRATES: dict[str, Callable[[Any, Path], None]] = {
    "workflow-run": workflow_run,
    "provenance-run": provenance_run,
    "process-run": process_run,
    "photograph": photograph,
    "remote-data": remote_data,
}


def main() -> None:
    for name, fill in CRATES.items():
        with tempfile.TemporaryDirectory() as folder:
            crate = ROCrate()
            crate.name, crate.datePublished = name, datetime(2026, 4, 1, tzinfo=UTC)
            fill(crate, Path(folder))
            crate.write(Path(folder, "out"))
            metadata = Path(folder, "out", "ro-crate-metadata.json").read_bytes()
            (FOLDER / f"{name}.json").write_bytes(metadata)


if __name__ == "__main__":
    main()
