"""A store in which an earlier version counted usage: it verifies, doctor says so, and an import or a vacuum counts anew."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import Run
from trails import Repository
from trails.exchange.file_import import export_session, import_path
from trails.integrity.verifier import answers, export
from trails.model import iris
from trails.rdf import turn_quads, vocab
from trails.usage import figures_of, older_figures_of

_CODEX = {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 50, "reasoning_output_tokens": 20}


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Everything that is stored until it is called is counted as an earlier version did."""

    def end() -> None:
        monkeypatch.setattr(turn_quads, "figures_of", figures_of)
        turn_quads.usage_facts.cache_clear()

    monkeypatch.setattr(turn_quads, "figures_of", older_figures_of)
    turn_quads.usage_facts.cache_clear()
    return end


def rollout(folder: Path) -> Path:
    """A session of Codex whose model was called once."""
    name = "019f0000-0000-7000-8000-00000000000a"
    said = [
        ("session_meta", {"id": name, "timestamp": "2026-08-01T10:00:00Z", "cwd": "/w", "cli_version": "0.145.0"}),
        ("turn_context", {"cwd": "/w", "model": "gpt-5.6"}),
        ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}),
        ("response_item", {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}),
        ("event_msg", {"type": "token_count", "info": {"total_token_usage": _CODEX, "last_token_usage": _CODEX}}),
    ]
    file = folder / f"rollout-2026-08-01T10-00-00-{name}.jsonl"
    stamp = "2026-08-01T10:00:00.000Z"
    lines = [json.dumps({"timestamp": stamp, "type": kind, "payload": payload}) for kind, payload in said]
    file.write_text("\n".join(lines) + "\n")
    return file


def figures(store: Repository) -> dict[str, int]:
    """What is stored of all usage, added up by property."""
    sums: dict[str, int] = {}
    for name, prop in turn_quads.FIGURES.items():
        for quad in store.store.quads((None, prop, None, None)):
            sums[name] = sums.get(name, 0) + int(quad.object.value)  # type: ignore[union-attr] # a number
    return sums


OLDER = {"inputTokens": 1000, "cacheReadTokens": 900, "outputTokens": 50}
NOW = {"inputTokens": 100, "cacheReadTokens": 900, "outputTokens": 50, "reasoningTokens": 20}


def test_an_import_of_the_same_file_counts_anew_what_an_earlier_version_counted(
    store: Repository, tmp_path: Path, older: Any
) -> None:
    file = rollout(tmp_path)
    import_path(store, file, final=True)
    older()
    (record,) = store.list()
    before = store.load(record.id).turns
    assert figures(store) == OLDER
    assert store.verify().ok
    report = import_path(store, file, final=True)
    assert report.unchanged == [record.id]
    assert [note for note in report.notes if "counted the tokens of 1 turn(s) otherwise" in note]
    assert figures(store) == NOW
    assert store.load(record.id).turns == before
    assert store.verify().ok
    assert import_path(store, file, final=True).notes == []


def test_what_was_appended_is_counted_anew_by_a_vacuum_and_doctor_names_the_sources_until_then(
    run: Run, place: Path, older: Any
) -> None:
    with trails.open(place, create=True) as made:
        session = made.create(id="s")
        session.append("assistant", "a", model="m", usage=_CODEX)
        session.append("assistant", "b", model="m", usage={"input": 1000, "cached": 900, "output": 30, "thoughts": 20})
        session.append("assistant", "c", model="m", usage={"input_tokens": 5, "output_tokens": 3})
        session.persist()
    older()
    told = run("doctor", "--json")
    (check,) = [each for each in json.loads(told.stdout)["checks"] if each["name"] == "usage"]
    assert not check["ok"]
    assert check["message"].endswith("otherwise by an earlier version: codex (1), gemini-cli (1)")
    with trails.open(place) as opened:
        assert opened.cost(prices={"m": {"input": 1000, "output": 1000, "cache_read": 100}}).total.input_tokens == 205
        opened.maintenance.vacuum()
        assert figures(opened) == {
            "inputTokens": 205,
            "cacheReadTokens": 1800,
            "outputTokens": 103,
            "reasoningTokens": 40,
        }
        assert opened.verify().ok
    (check,) = [each for each in json.loads(run("doctor", "--json").stdout)["checks"] if each["name"] == "usage"]
    assert check["ok"]


def test_an_export_of_such_a_store_holds_and_figures_that_no_version_counts_do_not(
    store: Repository, older: Any
) -> None:
    session = store.create(id="s")
    session.append("assistant", "a", model="m", usage=_CODEX)
    session.persist()
    older()
    out = io.BytesIO()
    export_session(store, "s", "nquads", out)
    assert answers.report(export.Export(io.BytesIO(out.getvalue())), ())["ok"]
    altered = out.getvalue().replace(b'inputTokens> "1000"', b'inputTokens> "10"')
    assert altered != out.getvalue()
    assert not answers.report(export.Export(io.BytesIO(altered)), ())["ok"]


def test_figures_that_no_version_counts_so_were_altered(store: Repository) -> None:
    from pyoxigraph import NamedNode, Quad

    from trails.store.contract import Change

    session = store.create(id="s")
    session.append("assistant", "a", model="m", usage=_CODEX)
    session.persist()
    (call,) = store.store.quads((None, vocab.INPUT_TOKENS, None, NamedNode(iris.session("s"))))
    forged = Quad(call.subject, vocab.INPUT_TOKENS, vocab.integer(10), call.graph_name)
    store.store.commit(Change(add=[forged], remove=[call]))
    assert not store.verify().ok
