"""PROV says which activity made each version of a file, and which version it revises, across forks too."""

from __future__ import annotations

import pytest

from tests.provenance.test_derived import derived
from trails import FileVersion, Repository

pytestmark = pytest.mark.any_store


def fill(store: Repository) -> None:
    """plan: 0 finds a.py, 1 (a model's) changes it, 2 deletes it, 3 writes it anew; fork, at 2: changes it at 3."""
    with store.create(id="plan") as plan:
        plan.append("tool", "found", files=[FileVersion(path="a.py", data=b"0", outside=True)])
        plan.append("assistant", "x", model="m", files={"a.py": b"1", "b.py": b"b"})
        fork = plan.fork(at=2, id="fork")
        plan.append("assistant", "x", model="m", files={"a.py": None})
        plan.append("user", "x", files={"a.py": b"3"})
    fork.append("user", "x")
    fork.append("assistant", "x", files={"a.py": b"f"})
    fork.persist()


def short(iri: str | None) -> str:
    """plan/1/0 for the first payload of turn 1 of plan, plan/1/model for the call that generated that."""
    session, turn, *rest = (iri or "").removeprefix("urn:trails:session:").split("/")
    return "/".join([session, turn.partition("-")[0], *rest]).replace("payload/", "")


def test_a_version_was_generated_by_what_generated_the_turn_unless_others_made_it(store: Repository) -> None:
    fill(store)
    found = [each for each in derived(store, "derived_file_generated") if each.kind == "wasGeneratedBy"]
    assert sorted((short(each.arguments[0]), short(each.arguments[1])) for each in found) == [
        ("plan/1/0", "plan/1/model"),
        ("plan/1/1", "plan/1/model"),
        ("plan/2/0", "plan/2/model"),
    ]


def test_a_version_revises_the_one_before_it_in_its_own_transcript(store: Repository) -> None:
    fill(store)
    found = [each for each in derived(store, "derived_file_revision") if each.kind == "wasDerivedFrom"]
    assert sorted((short(each.arguments[0]), short(each.arguments[1])) for each in found) == [
        ("fork/3/0", "plan/1/0"),  # not the deletion, which the fork does not see
        ("plan/1/0", "plan/0/0"),
        ("plan/2/0", "plan/1/0"),  # and what was written anew revises nothing
    ]
    assert all("Revision" in str(each.attributes) for each in found)


def test_a_fork_revises_its_own_version_and_not_the_one_that_its_parent_has_at_the_same_index(
    memory: Repository,
) -> None:
    with memory.create(id="plan") as plan:
        for data in (b"0", b"1", b"2"):
            plan.append("user", "x", files={"a.py": data})
    with plan.fork(at=1, id="fork") as fork:
        for data in (b"f1", b"f2"):
            fork.append("user", "x", files={"a.py": data})
    found = [each for each in derived(memory, "derived_file_revision") if each.kind == "wasDerivedFrom"]
    assert sorted((short(each.arguments[0]), short(each.arguments[1])) for each in found) == [
        ("fork/1/0", "plan/0/0"),
        ("fork/2/0", "fork/1/0"),
        ("plan/1/0", "plan/0/0"),
        ("plan/2/0", "plan/1/0"),
    ]
