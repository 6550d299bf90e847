"""Whatever happens to the files of the index, an answer is right, and nothing that was taken out stays in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.flipped import flip
from trails import Repository
from trails.errors import StoreFailed
from trails.plumbing.index import checks, keeper, sidefile, texts
from trails.plumbing.index.keeper import FIGURES, PARTS, TEXTS, Part
from trails.store import maintenance

MARKED = "Qxzvkw"
"""Three letters of it in a row stand nowhere else."""


def fill(place: Path, *names: str) -> None:
    with trails.open(place, create=True, durability="process") as store:
        for name in names:
            session = store.create(id=name, meta={"title": f"about {name}"})
            session.append("user", f"I am {name}")
            session.persist()
        store.summaries()
        store.search("am")


def answers(store: Repository) -> Any:
    found = [(each.id, each.turns, each.first_prompt) for each in store.summaries()]
    return found, [(hit.session_id, hit.index) for hit in store.search("i am")], store.stats().total.turns


def told(place: Path) -> Any:
    with trails.open(place) as store:
        return answers(store)


def expected(*names: str) -> Any:
    newest_first = list(reversed(names))
    return ([(name, 1, f"I am {name}") for name in newest_first], [(name, 0) for name in newest_first], len(names))


def index_of(place: Path) -> Path:
    return place / maintenance.INDEX


def files_of(place: Path) -> list[Path]:
    return sorted(entry for entry in index_of(place).rglob("*") if entry.is_file())


def texts_of(place: Path) -> list[str]:
    """The names of the files that hold anything of a turn."""
    return [file.name for file in files_of(place) if file.name != "reached"]


def test_the_index_stands_beside_the_store_for_its_owner_alone(place: Path) -> None:
    fill(place, "a")
    files = {file.name: file.stat().st_mode & 0o777 for file in files_of(place)}
    assert files == dict.fromkeys(("figures.db", "figures.seal", "texts.db", "texts.seal", "reached"), 0o600)
    folders = [index_of(place), *(entry for entry in index_of(place).rglob("*") if entry.is_dir())]
    assert {folder.name: folder.stat().st_mode & 0o777 for folder in folders} == {"index": 0o700, "packs": 0o700}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_byte_that_flipped_gives_no_wrong_answer(place: Path, part: keeper.Part, share: float) -> None:
    fill(place, "a", "b")
    file = index_of(place) / part.name
    flip(file, int(share * (file.stat().st_size - 1)))
    assert told(place) == expected("a", "b")
    assert sidefile.is_sealed(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _pipe(file: Path) -> None:
    """Put what is waited for without end, by whoever takes it for a file, in a file's place."""
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("read_only", [True, False])
def test_other_figures_and_other_texts_are_not_believed(place: Path, read_only: bool) -> None:
    fill(place, "a", "b")
    file = index_of(place) / FIGURES.name
    data = file.read_bytes()
    assert b"I am a" in data
    file.write_bytes(data.replace(b"I am a", b"I am x"))
    with closing(sqlite3.connect(index_of(place) / TEXTS.name)) as other:
        for run, turns in other.execute("SELECT run, turns FROM runs").fetchall():
            altered = [turn._replace(shown="I ax b") for turn in texts.unpacked(turns)]
            other.execute("UPDATE runs SET turns = ? WHERE run = ?", (texts.packed(altered), run))
        other.commit()
    with trails.open(place, read_only=read_only) as store:
        assert answers(store) == expected("a", "b")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no seal": lambda file: file.with_suffix(".seal").unlink(),
    "no file": lambda file: file.unlink(),
    "an empty seal": lambda file: file.with_suffix(".seal").write_text(""),
    "a seal of another kind": lambda file: file.with_suffix(".seal").write_text("[9, 0, 0]"),
    "half of it": lambda file: os.truncate(file, file.stat().st_size // 2),
    "another file": lambda file: file.write_text("SQLite format 3 it is not"),
    "a folder": _folder,
    "a pipe": _pipe,
    "a pipe for a seal": lambda file: _pipe(file.with_suffix(".seal")),
    "another version": lambda file: _of_version(file, sidefile.FORMATS[file.name] + 1),
}


def _of_version(file: Path, version: int) -> None:
    seal = file.with_suffix(".seal")
    seal.write_text(json.dumps([version, *json.loads(seal.read_text())[1:]]))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
@pytest.mark.parametrize("damage", DAMAGE, ids=str)
def test_a_damaged_file_is_made_anew(place: Path, part: keeper.Part, damage: str) -> None:
    fill(place, "a", "b")
    DAMAGE[damage](index_of(place) / part.name)
    with trails.open(place, read_only=True) as view:
        assert answers(view) == expected("a", "b")
    assert told(place) == expected("a", "b")


def test_the_index_of_another_store_is_not_believed(place: Path, tmp_path: Path) -> None:
    fill(place, "a")
    fill(tmp_path / "other", "b", "c")
    shutil.rmtree(index_of(place))
    shutil.copytree(index_of(tmp_path / "other"), index_of(place))
    assert told(place) == expected("a")


def test_a_restored_backup_beside_a_newer_index_is_read_anew(place: Path, tmp_path: Path) -> None:
    fill(place, "a")
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
    assert not index_of(tmp_path / "backup").exists()
    fill(place, "b")
    shutil.copytree(index_of(place), index_of(tmp_path / "backup"))
    assert told(tmp_path / "backup") == expected("a")
    with trails.open(tmp_path / "backup") as store:  # it goes another way from there
        session = store.create(id="c")
        session.append("user", "I am c")
        session.persist()
        assert answers(store) == expected("a", "c")


def test_an_older_index_is_brought_up_to_date(place: Path, tmp_path: Path) -> None:
    fill(place, "a")
    shutil.copytree(index_of(place), tmp_path / "older")
    fill(place, "b")
    shutil.rmtree(index_of(place))
    shutil.copytree(tmp_path / "older", index_of(place))
    with trails.open(place, read_only=True) as view:
        assert answers(view) == expected("a", "b")
    assert told(place) == expected("a", "b")


def test_a_file_that_is_damaged_while_it_is_open_is_made_anew(place: Path) -> None:
    fill(place, "a")
    with trails.open(place) as store:
        store.summaries()
        with closing(sqlite3.connect(index_of(place) / FIGURES.name)) as other:
            other.execute("DROP TABLE calls")
            other.execute("DROP TABLE sessions")
            other.commit()
        assert answers(store) == expected("a")


def _of_another_store(place: Path, other: Path) -> None:
    fill(other, *"xyz")
    shutil.copytree(index_of(other), index_of(place), dirs_exist_ok=True)


def _flipped(place: Path, _: Path) -> None:
    for part in PARTS:
        for share in (0.2, 0.4, 0.6, 0.8):
            file = index_of(place) / part.name
            flip(file, int(share * file.stat().st_size))


def _nothing_but_a_file(place: Path, _: Path) -> None:
    if index_of(place).is_dir():
        shutil.rmtree(index_of(place))
        index_of(place).write_text("no folder")


def _swapped(place: Path, other: Path) -> None:
    fill(other, *"xyz")
    shutil.rmtree(index_of(place))
    index_of(other).rename(index_of(place))


WHILE_OPEN: dict[str, Callable[[Path, Path], object]] = {
    "another store's, written over it": _of_another_store,
    "another store's, in its place": _swapped,
    "flipped": _flipped,
    "no folder": lambda place, _: shutil.rmtree(index_of(place)),
    "no files": lambda place, _: deque(map(Path.unlink, files_of(place))),
    "a file for a folder": _nothing_but_a_file,
}


@pytest.mark.parametrize("attack", WHILE_OPEN, ids=str)
@pytest.mark.parametrize("writes", [False, True])
def test_what_others_do_to_an_open_index_gives_no_wrong_answer_and_is_never_sealed_as_right(
    place: Path, tmp_path: Path, attack: str, writes: bool
) -> None:
    fill(place, "a")
    with trails.open(place, durability="process") as store:
        assert answers(store) == expected("a")
        WHILE_OPEN[attack](place, tmp_path / "other")
        if writes:
            session = store.create(id="b")
            session.append("user", "I am b")
            session.persist()
        names = ["a", "b"] if writes else ["a"]
        assert answers(store) == expected(*names)
        WHILE_OPEN[attack](place, tmp_path / "another")
        store.delete("a")
        assert answers(store) == expected(*names[1:])
        assert store.verify().ok
        store.maintenance.vacuum()
        WHILE_OPEN[attack](place, tmp_path / "a third")
    assert told(place) == expected(*names[1:])


def test_an_index_that_may_not_be_changed_is_left_and_what_it_would_keep_is_not_taken_out(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    fill(place, "a")
    for damaged in (False, True):
        if damaged:
            _flipped(place, place)
        with trails.open(place, durability="process") as store, monkeypatch.context() as patched:
            patched.setattr(sidefile, "_unlink", refuse)
            a = store.load("a")
            a.append("user", "I am more")
            a.persist()
            assert len(store.search("i am")) == len(a)
            with pytest.raises(StoreFailed, match=r"would keep what is taken out; remove the folder .*index"):
                store.redact("a", 0)
            assert not store.load("a").turns[0].redacted
            with pytest.raises(StoreFailed, match=r"would keep what is taken out; remove the folder .*index"):
                store.maintenance.vacuum()


def test_a_folder_that_cannot_be_written_to_leaves_the_answers_right(place: Path) -> None:
    fill(place, "a")
    shutil.rmtree(index_of(place))
    index_of(place).write_text("no folder")
    assert told(place) == expected("a")


_KILLED = """
import os, sys, trails
from trails.plumbing.index import figures, texts, sidefile
store = trails.open(sys.argv[1], durability="process")
step = int(sys.argv[2])
def count(function):
    def counted(*arguments, **named):
        global step
        step -= 1
        if step == 0:
            os.kill(os.getpid(), 9)
        return function(*arguments, **named)
    return counted
for owner in (figures.Writer, texts.Writer):
    for name in ("remove", "put", "add", "settle"):
        setattr(owner, name, count(getattr(owner, name)))
for name in ("break_seal", "seal", "close"):
    setattr(sidefile.SideFile, name, count(getattr(sidefile.SideFile, name)))
session = store.create(id="b")
session.append("user", "I am b")
session.persist()
store.summaries(); store.search("am")
store.delete("a")
store.close()
"""


def test_a_kill_at_any_step_of_bringing_it_up_to_date_gives_no_wrong_answer(place: Path, size: str) -> None:
    steps = {"quick": (4, 14), "all": range(1, 20), "long": range(1, 20)}[size]
    for step in steps:
        shutil.rmtree(place, ignore_errors=True)
        fill(place, "a")
        subprocess.run([sys.executable, "-c", _KILLED, str(place), str(step)], check=False)
        with trails.open(place) as store:
            there = ["a"] * ("a" in store) + ["b"] * ("b" in store)
            assert answers(store) == expected(*there)


# --- what was taken out


def _raw(place: Path) -> bytes:
    """Return all bytes of the index's files, and all that is packed in them."""
    raw = b"".join(file.read_bytes() for file in files_of(place))
    return raw + b"".join(_unpacked(raw[at.start() :]) for at in re.finditer(re.escape(zlib.compress(b"")[:2]), raw))


def _unpacked(data: bytes) -> bytes:
    """Return what is packed in the beginning of some bytes, as far as it is whole."""
    stream, found = zlib.decompressobj(), b""
    with suppress(zlib.error):
        for at in range(0, len(data), 16):
            found += stream.decompress(data[at : at + 16])
    return found


def _grams(place: Path) -> set[str]:
    with closing(sqlite3.connect(index_of(place) / TEXTS.name)) as database:
        database.execute("CREATE VIRTUAL TABLE temp.found USING fts5vocab(main, grams, row)")
        return {term for (term,) in database.execute("SELECT term FROM temp.found")}


ERASING: dict[str, Callable[[Repository], object]] = {
    "redact": lambda store: store.redact("s", 0),
    "redact_matching": lambda store: store.redact_matching(MARKED),
    "delete": lambda store: store.delete("s"),
    "prune": lambda store: store.prune(keep_count=1),
}


@pytest.mark.parametrize("erasing", ["redact", "redact_matching", "delete", "prune"])
@pytest.mark.parametrize("asked_before", [True, False])
def test_what_is_taken_out_is_in_no_file_of_the_index_once_that_is_acknowledged(
    place: Path, erasing: str, asked_before: bool
) -> None:
    with trails.open(place, create=True) as store:
        session = store.create(id="s")
        session.append("user", f"My name is {MARKED}")
        session.persist()
        other = store.create(id="other")
        other.append("user", "Hello there")
        other.persist()
        store.search("there")
        store.summaries()
    assert f'["My name is {MARKED}"]'.encode() in _raw(place)  # as a run of the texts has it
    assert b"QXZ" in _raw(place)  # beside the text, in the list of what is in which
    assert {"QXZ", "VKW"} <= _grams(place)
    with trails.open(place) as store:
        if asked_before:
            store.search("there")
            store.summaries()
        ERASING[erasing](store)
        raw = _raw(place)
        assert MARKED.encode() not in raw
        assert b"QXZ" not in raw
        assert not {"QXZ", "XZV", "ZVK", "VKW"} & _grams(place)
        assert store.search(MARKED) == []
        assert [(hit.session_id, hit.index) for hit in store.search("there")] == [("other", 0)]


_KILLED_ERASING = """
import os, sys, trails
from trails.plumbing.index.keeper import Index
store = trails.open(sys.argv[1], durability="process")
store.summaries(); store.search("am")
Index._caught_up = lambda *_: os.kill(os.getpid(), 9)
store.redact("s", 0)
"""


def test_what_was_taken_out_just_before_a_kill_is_gone_once_the_store_is_opened(place: Path) -> None:
    with trails.open(place, create=True) as store:
        session = store.create(id="s")
        session.append("user", f"My name is {MARKED}")
        session.persist()
        store.summaries()
        store.search("name")
    assert MARKED.encode() in _raw(place)
    done = subprocess.run([sys.executable, "-c", _KILLED_ERASING, str(place)], check=False)
    assert done.returncode == -9
    with trails.open(place) as store:
        assert store.load("s").turns[0].redacted
        assert texts_of(place) == []


def test_an_index_too_great_to_be_written_anew_is_thrown_away(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "REWRITTEN_UP_TO", 0)
    fill(place, "a", MARKED)
    with trails.open(place) as store:
        store.delete(MARKED)
        assert MARKED.encode() not in _raw(place)
        assert b"QXZ" not in _raw(place)
        assert answers(store) == expected("a")


def test_what_a_kill_left_unsealed_is_gone_once_the_store_is_opened(place: Path) -> None:
    fill(place, MARKED)
    for part in PARTS:
        (index_of(place) / part.name).with_suffix(".seal").unlink()
    trails.open(place).close()
    assert texts_of(place) == []


def test_reads_beside_an_owner_use_its_index_and_write_nothing(place: Path) -> None:
    fill(place, "a")
    with trails.open(place) as owner:
        session = owner.create(id="b")
        session.append("user", "I am b")
        session.persist()
        before = {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files_of(place)}
        with trails.open(place, read_only=True) as view:
            assert answers(view) == expected("a", "b")
            third = owner.load("b")
            third.append("user", "I am here, too")
            third.persist()
            assert answers(view) == expected("a", "b")
            owner.summaries()
            view.refresh()
            assert answers(view)[2] == 3
        assert before.keys() == dict.fromkeys(files_of(place)).keys()


def test_a_view_of_an_older_moment_does_not_believe_a_newer_index(place: Path) -> None:
    fill(place, "a")
    with trails.open(place) as owner, trails.open(place, read_only=True) as view:
        session = owner.create(id="b")
        session.append("user", "I am b")
        session.persist()
        assert answers(owner) == expected("a", "b")
        assert answers(view) == expected("a")


def behind(place: Path) -> list[int]:
    with trails.open(place) as store:
        return [store.workspace.index.behind(part) for part in PARTS]


def commit(place: Path, name: str) -> None:
    with trails.open(place, create=True) as store:
        store.create(id=name).persist()


def test_closing_brings_the_index_up_to_date_for_a_single_commit(place: Path) -> None:
    commit(place, "a")
    assert behind(place) == [0, 0]
    commit(place, "b")
    assert behind(place) == [0, 0]


def test_closing_a_store_with_a_great_index_leaves_a_little_to_whoever_asks_next(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(place, "a")
    monkeypatch.setattr(keeper, "_SMALL", 0)
    monkeypatch.setattr(keeper, "_LITTLE", 3)
    commit(place, "b")
    assert behind(place) == [1, 1]
    commit(place, "c")
    assert behind(place) == [2, 2]
    commit(place, "d")
    assert behind(place) == [0, 0]


@pytest.mark.parametrize("damaged", [False, True])
def test_closing_after_one_commit_does_not_read_a_great_store_that_has_no_index(
    place: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    for name in ("a", "b", "c"):
        commit(place, name)
    if damaged:
        for part in PARTS:
            with (index_of(place) / part.name).open("ab") as file:
                file.write(b"more")
    else:
        shutil.rmtree(index_of(place))
    monkeypatch.setattr(keeper, "_MUCH", 2)
    commit(place, "d")
    assert index_of(place).exists() == damaged
    assert behind(place) == [4, 4]
    with trails.open(place) as store:
        assert [each.id for each in store.summaries()] == ["d", "c", "b", "a"]


def test_closing_without_a_commit_writes_no_index(place: Path) -> None:
    commit(place, "a")
    shutil.rmtree(index_of(place))
    with trails.open(place) as store:
        store.load("a")
    assert not index_of(place).exists()


def test_a_vacuum_makes_the_index_anew(place: Path) -> None:
    fill(place, "a")
    with trails.open(place) as store:
        with closing(sqlite3.connect(index_of(place) / FIGURES.name)) as other:
            other.execute("CREATE TABLE mine (a)")
        store.maintenance.vacuum()
        with closing(sqlite3.connect(index_of(place) / FIGURES.name)) as other:
            assert not other.execute("SELECT * FROM sqlite_master WHERE name = 'mine'").fetchall()
        assert answers(store) == expected("a")
    assert all(sidefile.is_sealed(index_of(place) / part.name) for part in PARTS)


# --- held against the store


def test_verify_says_where_the_index_says_other_than_the_store(place: Path) -> None:
    """Of files that were altered and sealed again, which only somebody who knows how a seal is made does."""
    fill(place, "a", "b")
    assert _checked(place)
    _forge(index_of(place) / FIGURES.name, "UPDATE sessions SET own_turns = 9 WHERE id = 'a'")
    _forge(
        index_of(place) / TEXTS.name, "DELETE FROM runs WHERE session = (SELECT number FROM sessions WHERE id = 'b')"
    )
    with trails.open(place) as store:
        found = [(finding.code, finding.session_id) for finding in store.verify().findings]
        assert found == [("index-differs", "a"), ("index-differs", "b")]
        store.maintenance.vacuum()
        assert store.verify().ok


@pytest.mark.parametrize("lie", ["DELETE FROM marks WHERE mark = 'ruser'", "UPDATE runs SET newest = newest + 1"])
def test_verify_says_where_turns_are_not_found_by_what_they_say(place: Path, lie: str) -> None:
    fill(place, "a")
    _forge(index_of(place) / TEXTS.name, lie)
    with trails.open(place) as store:
        assert [(finding.code, finding.session_id) for finding in store.verify().findings] == [("index-differs", "a")]


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE sessions SET project_name = 'other' WHERE id = 'a'",
        "UPDATE sessions SET cost = cost + 0.5 WHERE id = 'a'",
        "UPDATE turns SET day = day + 1",
    ],
)
def test_verify_says_where_the_figures_say_other_than_the_store(place: Path, lie: str) -> None:
    fill(place, "a")
    assert _checked(place)
    _forge(index_of(place) / FIGURES.name, lie)
    with trails.open(place) as store:
        assert [(finding.code, finding.session_id) for finding in store.verify().findings] == [("index-differs", "a")]


@pytest.mark.parametrize("has_owner", [False, True])
@pytest.mark.parametrize(
    ("file", "lie"),
    [
        (FIGURES, "UPDATE sessions SET label = 'other' WHERE id = 'a'"),
        (FIGURES, "DELETE FROM sessions WHERE id = 'a'"),
        (TEXTS, "DELETE FROM runs"),
    ],
)
def test_a_reader_that_has_asked_the_index_nothing_holds_it_against_the_store_too(
    place: Path, run: Any, file: Part, lie: str, has_owner: bool
) -> None:
    fill(place, "a")
    assert run("verify").exit_code == 0
    _forge(index_of(place) / file.name, lie)
    with trails.open(place) if has_owner else nullcontext():
        with trails.open(place, read_only=True) as reader:
            assert [(each.code, each.session_id) for each in reader.verify().findings] == [("index-differs", "a")]
        said = run("verify")
    assert (said.exit_code, "index-differs" in said.stdout) == (1, True)


def test_figures_that_name_sessions_which_they_do_not_have_answer_no_query(place: Path) -> None:
    with trails.open(place, create=True) as store:
        plan = store.create(id="a")
        plan.append("assistant", "Look", tool_calls=[{"id": "c", "name": "ls", "arguments": {}}])
        plan.append("tool", "two files", tool_call_id="c")
        plan.persist()
        said = store.select("tool-time").to_dicts()
        assert [row["answers"] for row in said] == [1]
    with trails.open(place) as store:
        store.summaries()
    _forge(index_of(place) / FIGURES.name, "UPDATE tool_answers SET session = 77")
    with trails.open(place) as store:
        assert store.select("tool-time").to_dicts() == said


def _fill_with_calls(place: Path) -> None:
    """Two sessions, each with a call of a model and of a tool; what the second one has of the first is a copy."""
    with trails.open(place, create=True, durability="process") as store:
        plan = store.create(id="plan", meta={"title": "The Alps"})
        plan.append("user", "Where to in the Alps?")
        call = {"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}
        plan.append(
            "assistant", "Let me look.", model="m-1", tool_calls=[call], usage={"input_tokens": 12, "cost": 0.5}
        )
        plan.append("tool", "Snow", tool_call_id="c1")
        plan.persist()
        fork = plan.fork(id="fork")
        fork.append("assistant", "Take the train.", model="m-1", usage={"input_tokens": 30, "cost": 0.25})
        fork.persist()
        fork.detach()
        store.tags.add("v1", "plan@1")
        store.summaries()
        store.search("alps")


def _partial(table: str, index: str, condition: str) -> str:
    """Statements that leave rows out of an index, of which the schema says as before that it has all."""
    add, remove = f"sql || ' WHERE {condition}'", f"replace(sql, ' WHERE {condition}', '')"
    made = f"PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = {{}} WHERE name = '{index}'"  # noqa: S608 - our own
    reset = "PRAGMA writable_schema = RESET"
    return f"{made.format(add)}; {reset}; REINDEX {index}; {made.format(remove)}; {reset}"


_GHOST = "INSERT INTO {0} SELECT 77, {1} FROM {0} LIMIT 1"
LIES = {
    "calls do not count": (FIGURES, "UPDATE calls SET counts = 0"),
    "a call counts seven times": (FIGURES, "UPDATE calls SET counts = 7 WHERE rowid = 1"),
    "turns do not count": (FIGURES, "UPDATE turns SET counts = 0"),
    "copied turns count": (FIGURES, "UPDATE turns SET counts = 1"),
    "created another day": (FIGURES, "UPDATE sessions SET by_created = by_created + 864 WHERE id = 'plan'"),
    "active another day": (FIGURES, "UPDATE sessions SET by_activity = by_activity + 864 WHERE id = 'plan'"),
    "a tie of another": (FIGURES, "UPDATE sessions SET tie = 5"),
    "a prompt elsewhere": (FIGURES, "UPDATE sessions SET prompt_at = 1 WHERE id = 'plan'"),
    "a cost without end": (FIGURES, "UPDATE sessions SET cost = 9e999 WHERE id = 'plan'"),
    "a cost that is text": (FIGURES, "UPDATE sessions SET cost = 'much' WHERE id = 'plan'"),
    "an id that is no text": (FIGURES, "UPDATE sessions SET id = CAST(id AS BLOB) WHERE id = 'plan'"),
    "a name that is no text": (FIGURES, "UPDATE sessions SET principal = CAST(principal AS BLOB)"),
    "text that is none": (FIGURES, "UPDATE sessions SET title = CAST(x'ff41' AS TEXT)"),
    "metadata of nobody": (FIGURES, "INSERT INTO meta VALUES (77, 'title', '\"Ghost\"')"),
    "a turn of nobody": (
        FIGURES,
        _GHOST.format("turns", "place, time, day, counts, copied, digest + 1, writer, agent, lacks, length, answers"),
    ),
    "a model call of nobody": (
        FIGURES,
        _GHOST.format(
            "calls",
            "'ab', rank, 'ghost', principal, author, model, time, day, input, cache_read, cache_write,"
            " cache_write_1h, output, reasoning, cost, provider, began, ended, counts",
        ),
    ),
    "a tool call of nobody": (FIGURES, _GHOST.format("tool_calls", "place, id, name, call")),
    "an answer of nobody": (
        FIGURES,
        _GHOST.format("tool_answers", "place, id, digest, rank, failed, refused, began, ended, call"),
    ),
    "no tag": (FIGURES, "DELETE FROM tags"),
    "a list without a session": (FIGURES, _partial("sessions", "sessions_created", "id <> ''plan''")),
    "turns that are left out": (FIGURES, _partial("turns", "turns_session", "place > 1")),
    "no such order": (FIGURES, "DROP INDEX sessions_created"),
    "a table of another kind": (
        FIGURES,
        "ALTER TABLE tags RENAME TO others; CREATE VIEW tags AS SELECT name FROM others",
    ),
    "no place": (FIGURES, "UPDATE place SET lines = NULL"),
    "a place in words": (TEXTS, "UPDATE place SET size = 'much'"),
    "two places": (TEXTS, "INSERT INTO place VALUES (1, 1, 'x')"),
    "texts of nobody": (TEXTS, "INSERT INTO runs SELECT 99, 77, newest, oldest, weight, turns FROM runs LIMIT 1"),
    "marks of nothing": (TEXTS, "INSERT INTO marks VALUES ('ruser', 99)"),
    "a session of nothing": (TEXTS, "INSERT INTO sessions VALUES (77, 'ghost', 1)"),
    "other turns": (TEXTS, "UPDATE sessions SET turns = turns + 1"),
    "a weight in words": (TEXTS, "UPDATE runs SET weight = 'much'"),
    "texts that are left out": (TEXTS, _partial("runs", "runs_newest", "run > 1")),
    "nothing is found": (TEXTS, "INSERT INTO grams (grams) VALUES ('delete-all')"),
    "texts in a list of others": (TEXTS, "UPDATE runs SET run = run + 1000; UPDATE marks SET run = run + 1000"),
}


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_verify_names_what_no_answer_may_be_found_by(place: Path, lie: str) -> None:
    part, statements = LIES[lie]
    _fill_with_calls(place)
    assert _checked(place)
    _forge(index_of(place) / part.name, statements)
    with trails.open(place) as store:
        codes = {finding.code for finding in store.verify().findings}
        assert codes in ({"index-differs"}, {"index-damaged"})
        store.maintenance.vacuum()
        assert store.verify().ok


STRANGE = {
    "an id that is no text": (FIGURES, "UPDATE sessions SET id = CAST(id AS BLOB)"),
    "a day that is none": (FIGURES, "UPDATE sessions SET created = 1000000000000000000, by_created = by_created"),
    "a label that is no text": (FIGURES, "UPDATE sessions SET label = x'00'"),
    "a cost that is text": (FIGURES, "UPDATE sessions SET cost = 'much'"),
    "no turns": (FIGURES, "UPDATE sessions SET own_turns = 'none'"),
    "days that are none": (FIGURES, "UPDATE turns SET day = 'none'"),
    "no place": (FIGURES, "UPDATE place SET lines = NULL"),
    "a place in words": (TEXTS, "UPDATE place SET size = 'much'"),
    "texts of nobody": (TEXTS, "UPDATE runs SET session = 77"),
    "sessions that are no text": (TEXTS, "UPDATE sessions SET id = CAST(id AS BLOB)"),
}


@pytest.mark.parametrize("kind", ["owner", "reader", "program"])
@pytest.mark.parametrize("lie", STRANGE, ids=str)
def test_a_file_of_values_that_are_never_written_is_not_believed_and_nothing_is_raised(
    place: Path, run: Any, lie: str, kind: str
) -> None:
    part, statement = STRANGE[lie]
    fill(place, "a", "b")
    _forge(index_of(place) / part.name, statement)
    if kind == "program":
        assert {each["id"] for each in json.loads(run("list", "--json").stdout)["sessions"]} == {"a", "b"}
        assert "I am a" in run("list").stdout or "about a" in run("list").stdout
        assert "I am b" in run("search", "am b").stdout
        assert run("stats").exit_code == 0
        return
    with trails.open(place, read_only=kind == "reader") as store:
        assert answers(store) == expected("a", "b")
        session = [] if kind == "reader" else ["c"]
        for name in session:
            third = store.create(id=name)
            third.append("user", f"I am {name}")
            third.persist()
        assert answers(store) == expected("a", "b", *session)
        is_told = "place" not in lie or kind == "reader"
        assert [finding.code for finding in store.verify().findings] == ["index-damaged"] * is_told
        assert store.verify().ok == (kind == "owner")
    assert _checked(place) == (kind == "owner")  # a reader leaves the file as it is


@pytest.mark.parametrize("lie", ["UPDATE runs SET weight = 'much'", "UPDATE runs SET run = 4611686018427387904"])
def test_a_file_that_cannot_be_brought_up_to_date_is_begun_anew(place: Path, lie: str) -> None:
    fill(place, "a")
    _forge(index_of(place) / TEXTS.name, lie)
    with trails.open(place) as store:
        session = store.load("a")
        session.append("user", "I am more")
        session.persist()
        assert [hit.index for hit in store.search("i am")] == [1, 0]
    _forge(index_of(place) / TEXTS.name, lie)
    with trails.open(place) as store:
        store.redact("a", 1)
    assert _checked(place)


@pytest.mark.parametrize("at", range(6))
def test_verify_names_a_part_of_a_transcript_that_is_in_no_list_of_characters(place: Path, at: int) -> None:
    with trails.open(place, create=True) as store:
        session = store.create(id="s")
        for number in range(12):
            session.append("user", f"What is said in turn {number}")
        session.persist()
        store.search("said")
    assert _checked(place)
    with closing(sqlite3.connect(index_of(place) / TEXTS.name)) as other:
        rows = other.execute("SELECT run, turns FROM runs ORDER BY run").fetchall()
        listed = [part for run, turns in rows for part in texts._parts(run, texts.unpacked(turns))]
        other.execute("INSERT INTO grams (grams, rowid, text) VALUES ('delete', ?, ?)", listed[at])
        other.commit()
    _forge(index_of(place) / TEXTS.name, "")
    assert len(listed) == 6
    with trails.open(place) as store:
        assert [(finding.code, finding.session_id) for finding in store.verify().findings] == [("index-differs", "s")]


def test_an_owner_that_changes_the_file_that_verify_reads_is_no_damage(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process's file is read where it is: what is read of it while its owner writes may be anything."""
    fill(place, "a", "b")
    plain, left = checks._in_figures, ["malformed"]

    def changed(file: sidefile.SideFile) -> Any:
        if left:
            with trails.open(place) as owner:
                owner.delete("b")
                owner.summaries()
            raise sqlite3.DatabaseError(left.pop())
        return plain(file)

    with trails.open(place, read_only=True) as reader:
        monkeypatch.setattr(checks, "_in_figures", changed)
        assert reader.verify().findings == ()


def _checked(place: Path) -> bool:
    with trails.open(place) as store:
        return store.verify().ok


def _forge(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        for each in statement.split("; "):
            other.execute(each)
    seal = file.with_suffix(".seal")
    version, _, _, *place = json.loads(seal.read_text())
    data = file.read_bytes()
    seal.write_text(json.dumps([version, len(data), zlib.crc32(data), *place]))


def test_verify_finds_nothing_where_there_is_no_index_or_an_older_one(place: Path) -> None:
    with trails.open(place, create=True) as store:
        store.create(id="a").persist()
        assert store.verify().ok
        assert not index_of(place).exists()
    fill(place, "b")
    with trails.open(place) as store:
        store.create(id="c").persist()
        assert store.verify().ok


def test_the_doctor_says_what_is_wrong_with_the_index(place: Path, run: Any) -> None:
    def said() -> tuple[bool, str]:
        checks = json.loads(run("doctor", "--json").stdout)["checks"]
        return next((check["ok"], check["message"]) for check in checks if check["name"] == "index")

    trails.open(place, create=True).close()
    assert said() == (True, "there is none yet; who lists, counts or searches has it made")
    fill(place, "a")
    assert said()[1].startswith("as it was sealed: figures.db up to line ")
    flip(index_of(place) / TEXTS.name, 5000)
    assert said() == (False, "texts.db of the index is not as it was sealed: damaged, or in use just now")
