"""Secrets that come in with transcripts and stand in stores: named, never shown, and taken out where asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import Run
from tests.support.made_keys import MADE
from trails import InvalidInput, Ledger, Repository
from trails.exchange.file_import import export_session, import_path
from trails.exchange.merge import merge
from trails.exchange.source_transcript import Piece, SourceSession, SourceTurn, Transcript
from trails.history.lookup import session_quads
from trails.model.values import Compaction
from trails.provenance import import_document
from trails.secrets import detection

_OPENAI = MADE["openai-key, of a project"](1)
_GITHUB = MADE["github-token"](2)
_AWS = MADE["aws-access-key"](3)
_NPM = MADE["npm-token"](4)
_SLACK = MADE["slack-token"](5)
_STRIPE = MADE["stripe-key"](6)
_EVERY = (_OPENAI, _GITHUB, _AWS, _NPM, _SLACK, _STRIPE)


def _line(uuid: str, parent: str | None, role: str, content: Any) -> str:
    record = {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "S", "timestamp": "2026-01-01T00:00:00Z"}
    more = {"id": f"msg-{uuid}", "model": "m"} if role == "assistant" else {}
    return (
        json.dumps({**record, "cwd": "/", "version": "2", "message": {"role": role, "content": content, **more}}) + "\n"
    )


_FIRST = _line("a", None, "user", f"My key is {_OPENAI}, use it.")
_SECOND = _line(
    "b",
    "a",
    "assistant",
    [
        {"type": "text", "text": "I set it."},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"export GH={_GITHUB}\nls"}},
    ],
)
_THIRD = _line("c", "b", "user", [{"type": "tool_result", "tool_use_id": "t1", "content": f"aws {_AWS} ok"}])
_FOURTH = _line("d", "c", "user", f"and {_NPM}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A transcript of three turns with a secret each."""
    path = tmp_path / "s.jsonl"
    path.write_text(_FIRST + _SECOND + _THIRD)
    return path


def _everything(store: Repository) -> str:
    """Return all that a store holds, as text."""
    return "\n".join(str(quad) for quad in store.store.quads((None, None, None, None)))


def _where(report: Any) -> list[tuple[str, str | None, int | None, str]]:
    return [(each.kind, each.session_id, each.index, each.where) for each in report]


_PLACES = [
    ("openai-key", "claude-code:S", 0, "content"),
    ("github-token", "claude-code:S", 1, "content"),
    ("aws-access-key", "claude-code:S", 2, "content"),
]


def test_a_key_in_escapes_in_the_arguments_of_a_call_does_not_get_into_the_store(
    memory: Repository, tmp_path: Path
) -> None:
    escaped = "".join(rf"\u{ord(each):04x}" for each in _GITHUB)
    inner = f'{{"token": "{escaped}"}}'
    call = {"id": "t", "type": "function", "function": {"name": "post", "arguments": json.dumps({"body": inner})}}
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"messages": said}) + "\n")
    report = import_path(memory, path, redact_secrets=True)
    assert [(each.kind, each.index, each.where, each.redacted, each.hint) for each in report.secrets] == [
        ("github-token", 1, "arguments", True, "ghp_… (40 characters)")
    ]
    (call_stored,) = next(iter(memory.load(str(report.secrets[0].session_id)).turns[1:])).tool_calls
    assert call_stored.input == {"body": '{"token": "[redacted: github-token]"}'}


def test_an_import_names_each_secret_and_says_nothing_of_it(memory: Repository, file: Path) -> None:
    report = import_path(memory, file, final=True)
    assert _where(report.secrets) == _PLACES
    assert not any(each.redacted for each in report.secrets)
    shown = json.dumps(report.to_dict())
    assert not any(secret[6:] in shown for secret in _EVERY)
    assert report.secrets[0].hint == "sk-p… (164 characters)"
    assert _OPENAI in _everything(memory)


def test_with_redaction_no_secret_gets_into_the_store(store: Repository, file: Path) -> None:
    report = import_path(store, file, redact_secrets=True, final=True)
    assert _where(report.secrets) == _PLACES
    assert all(each.redacted for each in report.secrets)
    held = _everything(store)
    assert not any(secret in held for secret in _EVERY)
    turns = store.load("claude-code:S").turns
    assert turns[0].content == "My key is [redacted: openai-key], use it."
    assert turns[1].content[1]["input"] == {"command": "export GH=[redacted: github-token]\nls"}
    assert turns[1].tool_calls[0].input == {"command": "export GH=[redacted: github-token]\nls"}
    assert turns[2].content[0]["content"] == "aws [redacted: aws-access-key] ok"
    assert store.verify().ok
    assert session_quads.scan_sessions(store.workspace).found == ()


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("then", [False, True])
def test_importing_again_adds_nothing_and_a_grown_file_goes_on_with_redaction_or_without(
    memory: Repository, file: Path, *, first: bool, then: bool
) -> None:
    import_path(memory, file, redact_secrets=first, final=True)
    before = _everything(memory)
    again = import_path(memory, file, redact_secrets=then, final=True)
    assert (again.turns_added, again.forks_created, again.changed) == (0, [], [])
    assert again.unchanged == ["claude-code:S"]
    assert _everything(memory) == before
    file.write_text(_FIRST + _SECOND + _THIRD + _FOURTH)
    grown = import_path(memory, file, redact_secrets=then, final=True)
    assert (grown.turns_added, grown.grown, grown.forks_created, grown.changed) == (1, ["claude-code:S"], [], [])
    last = memory.load("claude-code:S").turns[3].content
    assert last == ("and [redacted: npm-token]" if then else f"and {_NPM}")
    assert memory.verify().ok


def test_secrets_that_were_imported_before_are_named_and_the_way_to_take_them_out(
    memory: Repository, file: Path
) -> None:
    import_path(memory, file, final=True)
    report = import_path(memory, file, redact_secrets=True, final=True)
    assert _where(report.secrets) == _PLACES
    assert not any(each.redacted for each in report.secrets)
    assert any("3 secret(s) were imported before" in note and "trails redact" in note for note in report.notes)


def test_a_turn_that_says_something_else_is_a_fork_all_the_same(memory: Repository, file: Path) -> None:
    import_path(memory, file, redact_secrets=True, final=True)
    file.write_text(_line("a", None, "user", f"Here is {_OPENAI}, use it.") + _SECOND + _THIRD)
    report = import_path(memory, file, final=True)
    assert len(report.changed) == 1


@pytest.mark.parametrize("first", [False, True])
def test_a_branch_that_was_deleted_stays_so_with_redaction_or_without(memory: Repository, *, first: bool) -> None:
    def source() -> Transcript:
        root = SourceTurn("user", (Piece("a", "start"),))
        ends = [SourceTurn("user", (Piece(each, f"{each} {_NPM}"),)) for each in "bc"]
        return Transcript(sessions=(SourceSession("t", "S", tuple((root, end) for end in ends)),))

    (fork,) = merge(memory, source(), redact_secrets=first).forks_created
    memory.delete(fork)
    report = merge(memory, source(), redact_secrets=not first)
    assert (report.forks_created, report.deleted) == ([], [fork])


def test_everything_that_a_source_says_is_looked_through(memory: Repository) -> None:
    turn = SourceTurn(
        "assistant",
        (Piece("a", "calling"),),
        tool_calls=({"id": "c", "name": "n", "arguments": json.dumps({"k": f"x {_OPENAI}"})},),
        meta={"env": {"DB_PASSWORD": "n7!kPz#2qLw"}},
        compaction=Compaction(request=f"sum up {_GITHUB}"),
    )
    source = SourceSession("t", "S", ((turn,),), title=f"use {_AWS}", system=f"with {_NPM}", meta={"cfg": f"{_SLACK}"})
    report = merge(memory, Transcript(sessions=(source,)), redact_secrets=True)
    assert sorted(_where(report.secrets), key=str) == sorted(
        [
            ("openai-key", "t:S", 0, "arguments"),
            ("password", "t:S", 0, "meta"),
            ("github-token", "t:S", 0, "request"),
            ("aws-access-key", "t:S", None, "title"),
            ("npm-token", "t:S", None, "system prompt"),
            ("slack-token", "t:S", None, "meta"),
        ],
        key=str,
    )
    held = _everything(memory)
    assert not any(secret in held for secret in (*_EVERY, "n7!kPz#2qLw"))
    session = memory.load("t:S")
    assert session.system == "with [redacted: npm-token]"
    assert session.turns[0].tool_calls[0].input == {"k": "x [redacted: openai-key]"}
    assert session.turns[0].meta == {"env": {"DB_PASSWORD": "[redacted: password]"}}


def test_a_report_quotes_no_secret_of_a_record_that_could_not_be_used(memory: Repository, file: Path) -> None:
    file.write_text(_FIRST + '{"type": "user", "message": "' + _STRIPE + "\n" + _SECOND)
    report = import_path(memory, file, final=True)
    assert report.problems
    shown = json.dumps(report.to_dict())
    assert _STRIPE not in shown
    assert "[redacted: stripe-key]" in shown


def test_an_exact_export_is_not_changed_and_its_secrets_are_named(
    memory: Repository, file: Path, tmp_path: Path
) -> None:
    import_path(memory, file, final=True)
    export = tmp_path / "s.nq"
    with export.open("wb") as out:
        export_session(memory, "claude-code:S", "nquads", out)
    with trails.open(":memory:") as other:
        with pytest.raises(InvalidInput, match="Nothing was imported"):
            import_path(other, export, redact_secrets=True)
        assert len(other.store) == 0
        assert sorted(_where(import_path(other, export).secrets)) == sorted(_PLACES)


def test_a_state_folder_loses_the_secrets_of_its_transcripts_entries_and_runs(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    entry = {"sessionId": "s1", "updatedAt": 5, "subject": f"deploy {_SLACK}"}
    (folder / "sessions.json").write_text(json.dumps({"agent:main:main": entry}))
    lines = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-28T10:00:00.000Z", "cwd": "/"},
        {"type": "message", "id": "m1", "parentId": None, "timestamp": "2026-01-28T10:00:01.000Z",
         "message": {"role": "user", "content": f"take {_NPM}", "timestamp": 1}},
    ]  # fmt: skip
    (folder / "s1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "subagents").mkdir()
    run = {
        "runId": "r1", "childSessionKey": "agent:main:subagent:x", "requesterSessionKey": "agent:main:main",
        "requesterDisplayKey": "main", "task": f"use {_STRIPE}", "cleanup": "keep", "createdAt": 1769594400000,
    }  # fmt: skip
    (tmp_path / "subagents" / "runs.json").write_text(json.dumps({"version": 2, "runs": {"r1": run}}))
    with trails.open(":memory:") as store:
        report = import_path(store, tmp_path, redact_secrets=True, final=True)
        assert sorted((each.kind, each.where, each.redacted) for each in report.secrets) == [
            ("npm-token", "content", True),
            ("slack-token", "entry", True),
            ("stripe-key", "run r1", True),
        ]
        held = _everything(store)
        assert "use [redacted: stripe-key]" in held
        assert "deploy [redacted: slack-token]" in held
        assert not any(secret in held for secret in _EVERY)
    with trails.open(":memory:") as store:
        import_path(store, tmp_path, final=True)
        found = {
            (each.kind, each.session_id, each.index, each.where)
            for each in session_quads.scan_sessions(store.workspace).found
        }
        assert found == {
            ("npm-token", "openclaw-main:s1", 0, "content"),
            ("slack-token", "openclaw-main:s1", None, "entry subject"),
            ("stripe-key", "agent:main:subagent:x", None, "run r1"),
        }


# --- what is stored


def _plant(store: Repository) -> None:
    """Put a secret wherever a person or an agent can write something."""
    session = store.create(id="s", label=f"l {_NPM}", system=f"prompt {_AWS}", meta={"api_key": "q8ZkT3vB1nXw7RpL2mYc"})
    session.append("user", f"text {_OPENAI}")
    session.append(
        "assistant",
        [{"type": "tool_use", "id": "t", "name": "n", "input": {"k": _GITHUB}}],
        meta={"note": f"m {_SLACK}"},
    )
    session.append("tool", f"result {_STRIPE}", tool_call_id="t")
    session.persist()
    store.notes.add("s", 0, f"note {_SLACK}")
    Ledger(store).receive("s", f"message {_GITHUB}", source="mail")
    fork = store.load("s").fork(1, id="f")
    fork.append("user", f"fork {_NPM}")
    fork.persist()


_PLANTED = [
    ("aws-access-key", "s", None, "system prompt 1"),
    ("github-token", "s", None, "ledger 1"),
    ("github-token", "s", 1, "content"),
    ("npm-token", "s", None, "label"),
    ("openai-key", "s", 0, "content"),
    ("password", "s", None, "meta api_key"),
    ("slack-token", "s", 0, "note"),
    ("slack-token", "s", 1, "meta"),
    ("stripe-key", "s", 2, "content"),
]


def test_a_scan_finds_secrets_wherever_they_stand(store: Repository) -> None:
    _plant(store)
    report = session_quads.scan_session(store.workspace, "s")
    assert sorted(_where(report.found), key=str) == sorted(_PLANTED, key=str)
    whole = session_quads.scan_sessions(store.workspace)
    assert whole.sessions == 2
    assert sorted(_where(whole.found), key=str) == sorted([*_PLANTED, ("npm-token", "f", 1, "content")], key=str)
    shown = json.dumps(whole.to_dict())
    assert not any(secret[6:] in shown for secret in (*_EVERY, "q8ZkT3vB1nXw7RpL2mYc"))


def test_a_fork_is_scanned_with_the_turns_that_it_shares_and_no_others(memory: Repository) -> None:
    _plant(memory)
    assert sorted(_where(session_quads.scan_session(memory.workspace, "f").found)) == [
        ("npm-token", "f", 1, "content"),
        ("openai-key", "s", 0, "content"),
    ]


def test_a_turn_that_was_redacted_has_no_secrets(memory: Repository) -> None:
    _plant(memory)
    memory.redact("s", 1)
    assert not [each for each in session_quads.scan_session(memory.workspace, "s").found if each.index == 1]


def test_the_command_line_imports_scans_and_redacts(run: Run, file: Path) -> None:
    done = run("import", "--final", "--create", str(file))
    assert re.search(r"secret: openai-key +claude-code:S, turn 0, content: sk-p… \(164 characters\)", done.stderr)
    assert "3 secrets in the store as they are" in done.stderr
    assert not any(secret[6:] in done.output for secret in _EVERY)
    found = run("scan", "claude-code:S")
    assert found.exit_code == 1
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["openai-key", "github-token", "aws-access-key"]
    assert "3 secrets in 1 session" in found.stderr
    told = run("scan", "--all", "--json")
    assert told.exit_code == 1
    assert [
        (each["kind"], each["session"], each["index"], each["where"]) for each in json.loads(told.stdout)["secrets"]
    ] == _PLACES
    for index in range(3):
        run("redact", "claude-code:S", str(index), "--yes")
    clean = run("scan", "--all")
    assert (clean.exit_code, clean.stdout) == (0, "")
    assert "no secrets in 1 session" in clean.stderr


def test_the_command_line_takes_secrets_out_on_import(run: Run, file: Path) -> None:
    done = run("import", "--final", "--create", "--redact-secrets", "--json", str(file))
    assert [(each["kind"], each["index"], each["redacted"]) for each in json.loads(done.stdout)["secrets"]] == [
        ("openai-key", 0, True),
        ("github-token", 1, True),
        ("aws-access-key", 2, True),
    ]
    assert run("scan", "claude-code:S").exit_code == 0
    assert "unchanged" in run("import", "--final", str(file)).stdout


@pytest.mark.parametrize("as_json", [False, True])
def test_a_secret_in_a_session_s_id_is_named_and_never_shown(run: Run, tmp_path: Path, *, as_json: bool) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(_line("a", None, "user", "Plan a trip").replace('"sessionId": "S"', f'"sessionId": "{_GITHUB}"'))
    how = ["--json"] if as_json else []
    listed = [*how, "-v"]
    done = run("import", "--final", "--create", str(file), *listed)
    again = run("import", "--final", str(file), *listed)
    found = run("scan", "--all", *how)
    assert found.exit_code == 1
    for shown in (done.output, again.output, found.output):
        assert _GITHUB[6:] not in shown
        assert "claude-code:[redacted: github-token]" in shown
    assert "an id cannot be redacted" in done.output
    if as_json:
        ((told,), (scanned,)) = (json.loads(each.stdout)["secrets"] for each in (done, found))
        assert (told["kind"], told["session"], told["index"], told["where"], told["redacted"]) == (
            *("github-token", "claude-code:[redacted: github-token]", None, "session id", False),
        )
        assert scanned["session"] == "claude-code:[redacted: github-token]"
    else:
        assert re.search(
            r"secret: github-token +claude-code:\[redacted: github-token\], session id: ghp_…", done.stderr
        )


def test_a_session_whose_id_holds_a_secret_is_refused_where_secrets_are_to_be_taken_out(
    memory: Repository, tmp_path: Path
) -> None:
    file = tmp_path / f"{_GITHUB}.jsonl"
    file.write_text(_line("a", None, "user", "Plan a trip").replace('"sessionId": "S"', f'"sessionId": "{_GITHUB}"'))
    report = import_path(memory, file, redact_secrets=True, final=True)
    assert (report.sessions_created, report.turns_added, memory.list()) == ([], 0, [])
    (problem,) = report.problems
    assert "session '[redacted: github-token]': the session's id itself holds a secret" in problem.reason
    assert _GITHUB[6:] not in json.dumps(report.to_dict())
    assert _GITHUB not in _everything(memory)


def test_a_scan_wants_a_session_or_the_whole_store(run: Run, file: Path) -> None:
    run("import", "--final", "--create", str(file))
    for arguments in ((), ("claude-code:S", "--all")):
        refused = run("scan", *arguments)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "name a session, or give --all" in refused.stderr


# --- more formats


def test_the_extra_s_detectors_add_to_the_built_in_ones() -> None:
    pytest.importorskip("detect_secrets")
    key = "AKCp8aB3xY7qLm9Z"
    text = f"artifactory {key} and {_OPENAI}"
    assert [(each.kind, text[each.start : each.end]) for each in detection.detector()(text)] == [
        ("artifactory-credentials", f" {key} "),
        ("openai-key", _OPENAI),
    ]


@pytest.mark.parametrize(
    "said",
    [
        f"ibm_api_key: {'aB3xY7qLm9' * 4}zZ42",
        f"to\u212aen = {'aB3xY7qLm9' * 4}zZ42",  # a letter that a pattern takes for a k
        f"CLOU-Key={'9f3a1c7e' * 8}",
        f"slapitoken={'9f3a1c7e' * 8}",
        f"secret_access_key={'9f3a1c7e2b8d' * 4}",
        "jfrog: APA3xY7qLm9B2",
        " AKCp8aB3xY7qLm9Z ",
        f"https://api.softlayer.com/soap/v3/{'9f3a1c7e' * 8}",
    ],
)
def test_a_key_is_found_by_its_pattern_whatever_is_looked_for_before_it_is_tried(said: str) -> None:
    pytest.importorskip("detect_secrets")
    slowly, low = [form._replace(signs=()) for form in detection._extra_forms()], detection.fold_text(said)
    found = [(each.start, each.end) for each in detection._extra_found(said, low, slowly)]
    assert found
    assert [(each.start, each.end) for each in detection._extra_found(said, low, detection._extra_forms())] == found


def test_of_each_pattern_of_the_extra_it_is_known_what_its_matches_hold() -> None:
    pytest.importorskip("detect_secrets")
    assert [form.pattern.pattern for form in detection._extra_forms() if not form.signs] == []


def test_without_the_extra_the_built_in_formats_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "_extra_forms", list)
    assert detection.detector.__wrapped__() is trails.secrets.builtin


def test_a_store_is_looked_through_in_which_notes_and_tags_were_removed(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("user", "Hello")
    session.persist()
    memory.tags.add("v1", "s@1")
    note = memory.notes.add("s", 0, "Is that so?")
    memory.notes.remove(note.id)
    memory.tags.remove("v1")
    assert session_quads.scan_sessions(memory.workspace).found == ()


def test_a_secret_in_a_prov_document_is_named_once_with_the_document(memory: Repository) -> None:
    text = f'document prefix ex <http://example.org/> entity(ex:e, [ex:key="my key is {_GITHUB}"]) endDocument'
    made = import_document(memory, text.encode(), format="provn")
    (found,) = session_quads.scan_sessions(memory.workspace).found
    assert (found.session_id, found.where) == (None, f"PROV document {made.sha256[:16]}")
