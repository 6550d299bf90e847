"""Where a session came from: who imported it, when, by which importer, from which bytes."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import invoke, ok
from trails import InvalidInput, Repository
from trails.exchange.file_import import export_session, import_bytes, import_path
from trails.exchange.merge import begin_import
from trails.history import import_records
from trails.provenance import export, validate
from trails.rdf import vocab
from trails.store import Change

pytestmark = pytest.mark.any_store

HEAD = '{"type":"session","version":3,"id":"%s","timestamp":"2026-01-28T10:00:00.000Z","cwd":"/"}'
SAID = (
    '{"type":"message","id":"%s","parentId":%s,"timestamp":"2026-01-28T10:00:01.000Z",'
    '"message":{"role":"user","content":"Hi"}}'
)


def text(session: str, turns: int, *more: str) -> bytes:
    """A session of pi with some turns, and further lines."""
    lines = [SAID % (f"m{number}", f'"m{number - 1}"' if number else "null") for number in range(turns)]
    return "\n".join([HEAD % session, *lines, *more]).encode()


def rows(store: Repository) -> list[dict[str, Any]]:
    return store.query("imported-sessions").to_dicts()  # type: ignore[union-attr] # a SELECT


def shown(store: Repository, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[each] for each in columns) for row in rows(store)]


def written(folder: Path, name: str, data: bytes) -> Path:
    file = folder / name
    file.write_bytes(data)
    return file


def test_an_imported_session_says_who_when_by_what_and_from_which_bytes(store: Repository, tmp_path: Path) -> None:
    data = text("s", 2, "no JSON", "none either")
    before = datetime.now(UTC)
    import_path(store, written(tmp_path, "chat.jsonl", data), by="eve")
    [row] = rows(store)
    assert (row["session"], row["by"], row["name"]) == (
        "urn:trails:session:pi:s",
        "urn:trails:principal:eve",
        "chat.jsonl",
    )
    assert (row["importer"], row["version"], row["refused"]) == ("pi", trails.__version__, 2)
    assert (row["size"], row["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert before <= row["began"] <= row["ended"] <= datetime.now(UTC)
    assert (row["turns"], row["records"]) == (2, 2)
    assert store.verify().ok
    node, file = NamedNode("urn:trails:session:pi:s"), NamedNode(f"urn:trails:file:{hashlib.sha256(data).hexdigest()}")
    assert Quad(node, vocab.DERIVED_FROM, file, vocab.CATALOG) in store.store.quads((node, None, None, vocab.CATALOG))


def test_a_file_that_grew_has_one_import_more_and_the_same_again_none(store: Repository, tmp_path: Path) -> None:
    for turns in (1, 1, 3, 3):
        import_path(store, written(tmp_path, "chat.jsonl", text("s", turns)), by="eve" if turns == 1 else "bob")
    assert shown(store, "import", "by", "size", "turns") == [
        ("urn:trails:session:pi:s/import", "urn:trails:principal:eve", len(text("s", 1)), 3),
        ("urn:trails:session:pi:s/import/2", "urn:trails:principal:bob", len(text("s", 3)), 3),
    ]
    assert store.verify().ok


def test_nobody_that_is_named_is_the_agent_unknown_else_the_actor(tmp_path: Path) -> None:
    file = written(tmp_path, "chat.jsonl", text("s", 1))
    for actor, who in ((None, "agent:unknown"), ("agent:clerk", "agent:clerk")):
        with trails.open(":memory:", actor=actor) as store:
            import_path(store, file)
            assert shown(store, "by") == [(f"urn:trails:{who}",)]


def test_each_session_of_a_folder_names_the_file_that_it_stood_in(store: Repository, tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path, f"{name}.jsonl", text(name, 1))
    import_path(store, tmp_path)
    assert shown(store, "source", "name") == [("pi:a", "a.jsonl"), ("pi:b", "b.jsonl")]


def test_the_same_bytes_under_another_name_are_one_file_and_the_import_says_what_it_was_called(
    store: Repository,
) -> None:
    data = text("s", 1)
    for number, name in enumerate(("first.jsonl", "second.jsonl", "first.jsonl")):
        if number == 0:
            session = store.create(id="s", source_session="pi:s")
            session.persist()
        files = {name: import_records.source_file(data, name)}
        read = import_records.ImportedFiles(begin_import(store, "pi", "eve"), files)
        read.recorded(store.store, "s", is_new=False).commit(store.store)
    assert shown(store, "name") == [("first.jsonl",), ("second.jsonl",), ("first.jsonl",)]
    assert len(store.store.quads((None, vocab.TYPE, vocab.SOURCE_FILE, vocab.CATALOG))) == 1
    assert store.verify().ok


def test_the_file_goes_with_the_session_that_came_from_it(store: Repository) -> None:
    for session_id in ("a", "b"):
        import_bytes(store, text(session_id, 1), by="eve")
    files = store.store.quads((None, vocab.TYPE, vocab.SOURCE_FILE, vocab.CATALOG))
    assert len(files) == 2
    store.delete("pi:a")
    assert shown(store, "source") == [("pi:b",)]
    assert len(store.store.quads((None, vocab.TYPE, vocab.SOURCE_FILE, vocab.CATALOG))) == 1
    assert store.verify().ok


def test_of_two_sessions_from_one_file_the_second_one_to_go_takes_it(store: Repository, tmp_path: Path) -> None:
    conversations: list[dict[str, Any]] = [
        {
            "conversation_id": name,
            "title": name,
            "create_time": 1.0,
            "current_node": "m",
            "mapping": {
                "m": {
                    "id": "m",
                    "parent": None,
                    "children": [],
                    "message": {
                        "id": "m",
                        "author": {"role": "user"},
                        "create_time": 1.0,
                        "content": {"content_type": "text", "parts": ["Hi"]},
                    },
                }
            },
        }
        for name in ("c1", "c2")
    ]
    import_path(store, written(tmp_path, "conversations.json", json.dumps(conversations).encode()))
    assert shown(store, "source", "name") == [
        ("chatgpt:c1", "conversations.json"),
        ("chatgpt:c2", "conversations.json"),
    ]
    for session_id, left in (("chatgpt:c1", 1), ("chatgpt:c2", 0)):
        store.delete(session_id)
        assert len(store.store.quads((None, vocab.TYPE, vocab.SOURCE_FILE, vocab.CATALOG))) == left
        assert store.verify().ok


def test_standard_input_has_no_name(place: Path) -> None:
    data = text("s", 1)
    ok(invoke("import", "--create", "-", "--by", "eve", store=place, stdin=data))
    with trails.open(place) as store:
        [row] = rows(store)
    assert (row["name"], row["size"], row["sha256"]) == (None, len(data), hashlib.sha256(data).hexdigest())
    assert row["by"] == "urn:trails:principal:eve"


@pytest.mark.parametrize(
    ("data", "how", "why"),
    [
        (b"", {}, "is empty"),
        (b"what is this", {}, "name the format"),
        (b"x", {"format": "openclaw"}, "no format of one file"),
        (b"x", {"format": "nquads", "redact_secrets": True}, "exact export"),
    ],
)
def test_what_cannot_be_read_from_standard_input_is_refused(
    memory: Repository, data: bytes, how: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        import_bytes(memory, data, **how)
    assert len(memory.store) == 0


def test_an_exact_export_says_that_it_was_imported_here_and_comes_out_as_it_was(
    store: Repository, memory: Repository
) -> None:
    made = memory.create(id="s")
    made.append("user", "Hi")
    made.persist()
    file = io.BytesIO()
    export_session(memory, "s", "nquads", file)
    import_bytes(store, file.getvalue(), format="nquads", by="eve")
    [act] = store.store.quads((None, vocab.TYPE, vocab.IMPORT, vocab.CATALOG))
    said = {q.predicate: q.object for q in store.store.quads((act.subject, None, None, vocab.CATALOG))}  # type: ignore[arg-type] # an IRI
    assert said[vocab.ASSOCIATED_WITH] == NamedNode("urn:trails:principal:eve")
    assert said[vocab.IMPORTER] == Literal("nquads")
    again = io.BytesIO()
    export_session(store, "s", "nquads", again)
    assert again.getvalue() == file.getvalue()
    assert store.verify().ok


def test_an_import_travels_with_the_session_that_it_brought(memory: Repository, store: Repository) -> None:
    import_bytes(memory, text("s", 1), by="eve")
    file = io.BytesIO()
    export_session(memory, "pi:s", "nquads", file)
    import_bytes(store, file.getvalue(), format="nquads")
    wanted = [(hashlib.sha256(text("s", 1)).hexdigest(), "urn:trails:principal:eve")]
    assert [pair for pair in shown(store, "sha256", "by") if pair[1].endswith("eve")] == wanted
    again = io.BytesIO()
    export_session(store, "pi:s", "nquads", again)
    assert again.getvalue() == file.getvalue()
    assert store.verify().ok


def test_its_prov_is_valid_also_by_its_times_and_names_the_file(memory: Repository) -> None:
    data = text("s", 2)
    import_bytes(memory, data)
    verdict = validate(memory, timed=True)
    assert verdict.ok
    assert verdict.timing is not None
    assert verdict.timing.findings == []
    out = io.BytesIO()
    export(memory, out, format="provn", session="pi:s")
    turn = next(
        line for line in out.getvalue().decode().splitlines() if line.strip().startswith("entity") and "/0-" in line
    )
    assert f"urn:trails:file:{hashlib.sha256(data).hexdigest()}" in turn


@pytest.mark.parametrize(
    "term",
    [
        *(vocab.IMPORTER, vocab.IMPORTER_VERSION, vocab.REFUSED_LINES, vocab.FILE_NAME, vocab.FILE_SIZE, vocab.SHA256),
        *(vocab.STARTED_AT, vocab.ENDED_AT, vocab.USED, vocab.DERIVED_FROM, vocab.DONE_TO, vocab.ASSOCIATED_WITH),
    ],
)
def test_whatever_is_said_of_an_import_is_missed(store: Repository, tmp_path: Path, term: NamedNode) -> None:
    import_path(store, written(tmp_path, "chat.jsonl", text("s", 1)))
    [said] = store.store.quads((None, term, None, vocab.CATALOG))
    store.store.commit(Change(remove=[said]))
    assert not store.verify().ok
    store.store.commit(Change(add=[said]))
    assert store.verify().ok


def test_a_name_is_taken_out_of_the_name_of_a_file_and_all_still_verifies(store: Repository, tmp_path: Path) -> None:
    import_path(store, written(tmp_path, "zenobia.jsonl", text("s", 1)))
    found = store.redact_matching("zenobia")
    assert [(each.session_id, each.kind) for each in found.places] == [("pi:s", "file name")]
    assert shown(store, "name") == [("redacted",)]
    assert store.verify().ok


def test_progress_names_each_file_in_order_and_one_that_goes_away_meanwhile_is_refused(
    memory: Repository, tmp_path: Path
) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    files = [written(tmp_path / name, "s.jsonl", text(name, 1)) for name in "abc"]
    seen: list[tuple[int, int, str]] = []

    def progress(*told: Any) -> None:
        files[2].unlink(missing_ok=True)
        seen.append(told)

    report = import_path(memory, tmp_path, progress=progress, final=True)
    names = [name for _, _, name in seen if name.endswith("s.jsonl")]
    assert list(dict.fromkeys(names)) == [str(file) for file in files]
    assert seen[-1] == (3, 3, "")
    assert len(memory.list()) == 2
    assert [problem.file for problem in report.problems] == [str(files[2])]
