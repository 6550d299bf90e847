"""The documents are true: what they show runs and gives what they show, and what they list is what there is."""

from __future__ import annotations

import contextlib
import doctest
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.support import audit_page
from tests.support.commands import invoke, ok
from tests.support.documents import in_a_shell, run_here
from tests.support.machines import Size
from tests.support.places import ROOT
from tests.support.query_rules import lint
from trails import errors
from trails.cli.help import PAGES, TUTORIALS, error_pages, read_page
from trails.exchange.formats import all_formats
from trails.rdf import query_files, vocab

README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
GUIDE = {name: read_page(name).text for name in (*PAGES, *TUTORIALS, *error_pages())}
SHOWN = {"README": README, **{name: text for name, text in GUIDE.items() if name not in TUTORIALS}}
"""The documents whose examples run, each by itself, from its first example to its last; `test_tutorials.py` has the tutorials."""
DOCUMENTS = {"README": README, "CONTRIBUTING": CONTRIBUTING, "CHANGELOG": CHANGELOG, **GUIDE}
every_example = pytest.mark.parametrize("document", SHOWN)
every_document = pytest.mark.parametrize("document", DOCUMENTS)


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def sample() -> Path:
    """A transcript that ships with the package."""
    found = sorted((Path(trails.__file__).parent / "_samples").rglob("*.jsonl"))
    return next(path for path in found if "subagents" not in path.parts)


SERVER = "postgresql://localhost/agents?store=team"
MIRROR = "http://localhost:7878"
REMOTE = "http://localhost:8420/"
RUN_WITH_SERVERS = {"postgres", "postgres-operations", "mirrors", "remote", "errors/needs-whole-store"}


@pytest.fixture
def served_store(tmp_path: Path) -> Iterator[str]:
    """The address of a server with an empty store."""
    from tests.support.served import served

    with trails.open(tmp_path / "served", create=True, durability="process") as store, served(store) as address:
        yield address


@pytest.fixture
def shown(document: str, request: pytest.FixtureRequest) -> str:
    """A document as it is shown; the server that one names is that of the tests."""
    text = SHOWN[document]
    for address, fixture in ((SERVER, "url"), (MIRROR, "oxigraph"), (REMOTE, "served_store")):
        if document in RUN_WITH_SERVERS and address in text:
            text = text.replace(address, str(request.getfixturevalue(fixture)))
    return text


# --- Python


def examples(name: str, text: str | None = None) -> doctest.DocTest:
    """Return the Python examples of a document, which share their names from the first to the last."""
    source = "\n".join(blocks(SHOWN[name] if text is None else text, "python"))
    return doctest.DocTestParser().get_doctest(source, {}, name, f"{name}.md", 0)


@every_example
def test_the_python_blocks_of_a_document_give_what_they_show(
    document: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample(), tmp_path / "conversation.jsonl")
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(examples(document, shown), out=report.append)
    assert runner.failures == 0, "".join(report)


def test_the_documents_show_many_examples() -> None:
    assert len(examples("README").examples) >= 20
    assert sum(len(examples(name).examples) for name in SHOWN) > 150


@every_example
def test_a_python_block_has_nothing_that_is_not_run(document: str) -> None:
    for block in blocks(SHOWN[document], "python"):
        shown = [line for line in block.splitlines() if line.strip()]
        assert shown[0].startswith(">>> ")
    assert "```py\n" not in SHOWN[document]


@pytest.mark.parametrize("page", GUIDE)
def test_a_page_has_no_block_that_is_not_tested(page: str) -> None:
    fences = re.findall(r"^```(.*)$", GUIDE[page], re.MULTILINE)
    assert set(fences[::2]) <= {
        "python",
        "console",
        *(["text"] if page in TUTORIALS else []),
        *(
            {
                "graph": ["trig"],
                "postgres": ["ini"],
                "postgres-operations": ["sql"],
                "mcp": ["json", "toml"],
                "command-line": ["toml"],
            }.get(page, [])
        ),
    }
    assert set(fences[1::2]) == {""}
    for block in blocks(GUIDE[page], "console"):
        assert all(line.startswith("$ trails ") for line in block.splitlines())


def test_a_rewritten_session_passes_verify_and_has_another_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit that the documents name: salts and times are fixed here, so that only the text can make a difference."""
    monkeypatch.setattr("trails.integrity.digests.new_salt", lambda: "00" * 16)
    moment, heads = datetime(2026, 3, 1, tzinfo=UTC), []
    for text in ("Plan a trip", "Plan a trip", "Plan a heist"):
        with trails.open(":memory:") as store:
            session = store.create(id="plan", created=moment)
            session.append("user", text, time=moment)
            session.append("assistant", "Where to?", time=moment)
            session.persist()
            assert store.verify().ok
            heads.append(session.head)
    assert heads[0] == heads[1] != heads[2]


# --- the command line


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the Python blocks of the page on pipelines have run."""
    folder = tmp_path_factory.mktemp("pipeline")
    with contextlib.chdir(folder):
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples("pipeline"), out=lambda _: None)
    return folder


def commands_in(text: str) -> list[str]:
    return [
        line[2:] for block in blocks(text, "console") for line in block.splitlines() if line.startswith("$ trails ")
    ]


@every_example
def test_the_commands_of_a_document_run_one_after_the_other(
    document: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    request: pytest.FixtureRequest,
    size: Size,
) -> None:
    commands = commands_in(shown)
    if document == "pipeline":  # whose commands go on with the store that its Python made
        shutil.copytree(request.getfixturevalue("pipeline"), tmp_path, dirs_exist_ok=True)
    if find_spec("cryptography") is None:  # the extra that the page on proofs names for these
        commands = [line for line in commands if not re.search(r"checkpoint|proof", line)]
    if find_spec("rfc3161_client") is None:
        commands = [line for line in commands if not line.startswith("trails proof timestamp")]
    if find_spec("matplotlib") is None:
        commands = [line for line in commands if "--plot" not in line]
    if size == "quick":
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("TRAILS_STORE", raising=False)
        for line in commands:
            run_here(line)
    else:
        in_a_shell("\n".join(commands), tmp_path)


def test_the_page_on_the_command_line_shows_every_command() -> None:
    from trails.cli import main

    lines = [line.split() for line in commands_in(GUIDE["command-line"])]
    typed = {words[1] for words in lines} | {" ".join(words[1:3]) for words in lines if len(words) > 2}
    # There is no run in that store, no server, and no client of `mcp`.
    assert set(main.every()) - typed == {
        "runs show",
        "mirror",
        "store discard",
        "store grants",
        "store clone",
        "store status",
        "hook",
        "mcp",
        "serve",
        "ui",
    }


# --- the graph


def normal(quads: set[tuple[str, str, str, str]]) -> set[tuple[str, str, str, str]]:
    """Return quads as text without what is drawn by lot: digests, salts and the digest's part of a turn's IRI."""
    plain = set()
    for subject, predicate, value, graph in quads:
        drawn = predicate in (str(vocab.DIGEST), str(vocab.SALT), str(vocab.LEAF_SALT))
        plain.add((re.sub(r"/0-[0-9a-f]{16}>$", "/0>", subject), predicate, "" if drawn else value, graph))
    return plain


def as_text(quads: list[ox.Quad]) -> set[tuple[str, str, str, str]]:
    return {(str(q.subject), str(q.predicate), str(q.object), str(q.graph_name)) for q in quads}


def test_the_triples_of_the_page_on_the_graph_are_those_that_are_written() -> None:
    shown, _ = blocks(GUIDE["graph"], "trig")
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with trails.open(":memory:") as store:
        session = store.create(id="plan", principal="alice", agent="planner", created=moment)
        session.append("user", "Plan a trip", time=moment)
        session.persist()
        written = store.store.quads((None, None, None, None))
    assert normal(as_text(list(ox.parse(shown, format=ox.RdfFormat.TRIG)))) == normal(as_text(written))


def test_the_triples_of_calls_on_the_page_on_the_graph_are_those_that_are_written() -> None:
    _, shown = blocks(GUIDE["graph"], "trig")
    moments = [datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC) for second in range(4)]
    with trails.open(":memory:") as store:
        session = store.create(id="plan", principal="alice", agent="planner", system="Be brief")
        session.append("user", "Plan a trip")
        session.append("summary", "A trip is planned", compaction=trails.Compaction(summarised_through=0))
        session.append("user", "Well?")
        context = trails.ContextUsed(through=2, summary=1, left_out=(2,))
        call = trails.Call(started=moments[0], ended=moments[2], provider="acme", prompt=1, context=context)
        session.append("assistant", "x", call=call, tool_calls=[{"id": "k1", "name": "ls", "arguments": {}}])
        ran = {"started": moments[2], "ended": moments[3], "outcome": "completed", "approved_by": "alice"}
        session.append("tool", "plan.md", tool_results=[{"call_id": "k1", **ran, "server": "files", "version": "1.2"}])
        session.persist()
        written = store.store.quads((None, None, None, None))

    def undrawn(quads: list[ox.Quad]) -> set[tuple[str, ...]]:
        return {tuple(re.sub(r"/(\d)-[0-9a-f]{16}", r"/\1", each) for each in quad) for quad in as_text(quads)}

    said = undrawn(list(ox.parse(shown, format=ox.RdfFormat.TRIG)))
    assert len(said) == 18
    assert said <= undrawn(written)


def test_the_page_on_the_graph_lists_the_catalogue() -> None:
    (table,) = re.findall(
        r"^\| query \| parameters \| what it answers \|\n\|[-|]+\|\n((?:\|.*\n)+)", GUIDE["graph"], re.MULTILINE
    )
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) == len(table.splitlines())
    expected = []
    for query in (each for each in query_files.catalogue().values() if each.folder == "catalogue"):
        names = [f"[{p.name}]" if p.optional else p.name for p in query.parameters]
        expected.append((query.name, ", ".join(names), query.purpose))
    assert rows == expected


def test_the_page_for_auditors_lists_their_queries_by_theme() -> None:
    """Else: `python -m tests.support.audit_page`."""
    assert GUIDE["audit"] == audit_page.with_section(GUIDE["audit"])
    listed = re.findall(r"^\| `([a-z-]+)` \|", GUIDE["audit"], re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in (query_files.folder() / "audit").glob("*.rq"))


def test_the_page_on_transcripts_lists_the_formats_that_can_be_imported() -> None:
    listed = re.findall(
        r"^- `([a-z-]+)`: .+$", GUIDE["transcripts"].partition("## Formats")[2].partition("##")[0], re.MULTILINE
    )
    assert sorted(listed) == sorted(each.name for each in all_formats().values() if each.ending is None)


# --- the reference of the Python API


def rows_of(title: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the page on Python, without its two first lines."""
    section = GUIDE["python"].partition(f"## {title}\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def listed_errors() -> list[str]:
    """Return the errors of the table, which link to their pages."""
    return [row[0].partition("]")[0].strip("[`") for row in rows_of("Errors")]


def test_the_page_on_python_lists_every_error() -> None:
    raised = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning)
    }
    listed = listed_errors()
    assert sorted(listed) == sorted(raised)


def test_dir_lists_the_public_names_in_order_before_any_is_used() -> None:
    code = "import trails; print(*dir(trails))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == sorted(trails.__all__)


def test_the_page_on_python_lists_every_public_name() -> None:
    listed = [name for row in rows_of("Public names") for name in re.findall(r"`(\w+)`", row[0])]
    told = {name for name in trails.__all__ if name.endswith("Warning")} | {*listed_errors()}
    assert sorted(listed) == sorted(set(trails.__all__) - told)
    assert all(f"`{name}`" in GUIDE["python"] for name in told)


# --- the guide


def test_the_readme_lists_the_pages_in_their_order_with_their_first_lines() -> None:
    rows = re.findall(r"^\| \[([a-z-]+)\]\(trails/guide/([a-z-]+)\.md\) \| (.+) \|$", README, re.MULTILINE)
    assert rows == [(name, name, read_page(name).summary) for name in PAGES]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_the_readme_names_an_import_for_each_adapter() -> None:
    rows = re.findall(
        r"^\| \[.+\]\(trails/guide/[a-z-]+\.md\) \| `from trails\.adapters\.(\w+) import (.+)` \|$",
        README,
        re.MULTILINE,
    )
    assert len(rows) == 8
    for module, names in rows:
        adapter = import_module(f"trails.adapters.{module}")
        assert [name for name in names.split(", ") if not hasattr(adapter, name)] == []


@every_document
def test_a_document_has_nothing_left_of_a_merge(document: str) -> None:
    assert re.findall("^(?:<{7}|={7}|>{7}).*", DOCUMENTS[document], re.MULTILINE) == []


@every_document
def test_an_item_of_a_list_begins_a_line(document: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", DOCUMENTS[document], flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\S - (?:\*\*|\[)", prose) == []


def test_the_figures_of_the_pipeline_are_given_again_from_its_checkpoint(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(pipeline, tmp_path, dirs_exist_ok=True))
    *signing, table, test = commands_in(GUIDE["pipeline"])
    for line in signing:
        ok(invoke(*shlex.split(line)[1:]))
    with trails.open(".trails") as store:  # a third arm, after the paper
        for sample in list(store.list(meta={"task": "trip_budget"}, limit=100)):
            store.load(sample.id).fork(id=f"{sample.id}-late", meta={"arm": "hasty"}).persist()
            store.score(f"{sample.id}-late", "off_by", 1000, by="agent:off_by", version="1")
    for line, begins in ((table, ">>> print(found.to_latex"), (test, ">>> print(found.test")):
        expected = re.search(rf"^{re.escape(begins)}.*?\n(.*?)^>>>", GUIDE["pipeline"], re.MULTILINE | re.DOTALL)
        assert expected is not None
        assert ok(invoke(*shlex.split(line)[1:])) == expected[1]
        assert ok(invoke(*shlex.split(line.replace(" --as-of paper.checkpoint", ""))[1:])) != expected[1]


# --- how the house is laid out


def layers_of_the_contract() -> list[set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = [each for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    return [set(re.split(r"\s*[|:]\s*", layer)) for layer in contract["layers"]]


def test_the_layers_of_contributing_are_those_of_the_contract() -> None:
    table = re.findall(r"^\| (`.*?`) \|", CONTRIBUTING, re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in table] == layers_of_the_contract()


def test_every_layer_of_the_contract_is_there() -> None:
    package = Path(trails.__file__).parent
    for layer in layers_of_the_contract():
        for name in layer:
            assert (package / name).is_dir() or (package / f"{name}.py").is_file(), name


def test_the_example_of_a_query_file_keeps_the_rules_and_answers() -> None:
    (text,) = blocks(CONTRIBUTING, "sparql")
    query = query_files.parse("example", "catalogue", text)
    assert lint(query) == []
    with trails.open(":memory:") as store:
        for name in ("one", "two", "three"):
            session = store.create(id=name)
            session.append("user", "hello")
            session.append("assistant", "hi")
            session.persist()
        rows: Any = store.store.query(query.bind(session="two", role="assistant"))
        assert [int(row["index"].value) for row in rows] == [1]
        rows = store.store.query(query.bind(session="two"))
        assert [int(row["index"].value) for row in rows] == [0, 1]


# --- files


@every_document
def test_a_document_names_no_make_target_that_is_not_there(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^\$ )make ([a-z-]+)", DOCUMENTS[document], re.MULTILINE))
    assert named <= targets


def linked(document: str, target: str) -> Path:
    """Return the file that a document links to: pages and the ontology may stand in an installed package."""
    package = Path(trails.__file__).parent
    if document in GUIDE:
        return (package / "guide" / document).parent / target
    if target.startswith("trails/"):
        return package.parent / target
    return query_files.folder().parent / target if target.startswith("ontology/") else ROOT / target


def anchors(text: str) -> set[str]:
    """Return what a link to a heading of a text may end in after its `#`."""
    return {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


@every_document
def test_a_document_links_only_to_files_and_headings_that_are_there(document: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", DOCUMENTS[document]):
        file = linked(document, target)
        assert not target or file.is_file(), target
        assert not anchor or anchor in anchors(file.read_text("utf-8") if target else DOCUMENTS[document]), anchor


def test_the_changelog_has_the_version_that_is_installed() -> None:
    assert re.search(rf"^## {re.escape(trails.__version__)}\b", CHANGELOG, re.MULTILINE)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(trails.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize(
    ("name", "module"),
    [("diff", "trails.compare"), ("keys", "trails.runtime.keys"), ("policy", "trails.runtime.policy")],
)
def test_a_module_that_the_guide_names_is_there_after_import_trails(name: str, module: str) -> None:
    code = f"import sys, trails; assert '{module}' not in sys.modules; print(trails.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == module, done.stderr


def public_examples() -> list[doctest.DocTest]:
    """Return the examples in the docstrings of all public names, and of their methods."""
    finder = doctest.DocTestFinder()
    found = [test for name in trails.__all__ for test in finder.find(getattr(trails, name), name, module=False)]
    return [test for test in found if test.examples]


@pytest.mark.parametrize("example", public_examples(), ids=lambda example: example.name)
def test_an_example_of_a_public_docstring_runs_for_whoever_imports_trails_alone(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example.globs.clear()
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)


def test_there_are_examples_of_public_docstrings_to_run() -> None:
    assert len(public_examples()) >= 20


MODULES = [name for _, name, _ in pkgutil.walk_packages(trails.__path__, "trails.") if name != "trails.__main__"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_of_a_module_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in doctest.DocTestFinder().find(import_module(name), name):
        runner.run(example, out=report.append)
    assert not report, "".join(report)
