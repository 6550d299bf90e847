"""Errors: each class has a page in the guide, which its text names at the end, and nothing that quotes it does."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import pytest

import trails
from tests.support.commands import Run, invoke
from trails import errors
from trails.cli.help import error_pages, read_page
from trails.errors import HeadConflict, InvalidInput, RequestRefused, TrailsError

CLASSES: dict[str, Any] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == errors.__name__
}


def test_there_is_a_page_for_each_class_and_for_nothing_else() -> None:
    assert sorted(kind.page for kind in CLASSES.values()) == list(error_pages())
    assert CLASSES["HeadConflict"].page == "errors/head-conflict"
    assert len(CLASSES) > 20


@pytest.mark.parametrize("name", CLASSES)
def test_a_page_is_titled_by_its_class_and_says_when_why_and_what_to_do(name: str) -> None:
    page = read_page(CLASSES[name].page)
    assert page.title == name
    assert re.findall(r"^\*\*(.+?)\.\*\*", page.text, re.MULTILINE)[0] == "When it comes"
    assert "**What to do.**" in page.text


@pytest.mark.parametrize("name", sorted(set(CLASSES) - {"ExchangeInterrupted"}))
def test_the_example_of_a_page_raises_what_it_is_about(name: str) -> None:
    """That it really does so is seen where all examples run; one needs a process that died."""
    text = read_page(CLASSES[name].page).text
    ending = f"(trails guide {CLASSES[name].page})"
    assert f"trails.errors.{name}: " in text or "print(c" in text
    assert ending in text or name == "RequestRefused"


def test_a_text_ends_with_the_page_and_the_message_is_there_without_it() -> None:
    error = HeadConflict("it moved on", expected="a", actual="b")
    assert str(error) == "it moved on (trails guide errors/head-conflict)"
    assert (error.message, error.args) == ("it moved on", ("it moved on",))
    assert str(TrailsError()) == "(trails guide errors/trails-error)"


def test_a_text_that_quotes_an_error_names_one_page_at_its_end() -> None:
    outer = InvalidInput(f"line 3: {HeadConflict('it moved on')}; nothing was imported")
    assert str(outer) == "line 3: it moved on; nothing was imported (trails guide errors/invalid-input)"
    assert f"{HeadConflict('it')!s:.2}|{HeadConflict('it'):>4}" == "it|  it"


def test_a_class_that_is_not_public_has_the_page_of_the_one_above_it() -> None:
    class Inner(InvalidInput):
        pass

    assert str(Inner("no")) == "no (trails guide errors/invalid-input)"


def test_a_refusal_keeps_the_words_that_hosts_pass_on() -> None:
    assert RequestRefused("invalid label: empty").message == "invalid label: empty"
    assert RequestRefused.page == "errors/request-refused"


def test_a_warning_names_its_page_where_it_is_shown() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("left behind", trails.PendingTurnsWarning, stacklevel=1)
    shown = warnings.formatwarning(caught[0].message, caught[0].category, "host.py", 1)
    assert "left behind (trails guide errors/pending-turns-warning)" in shown


def test_what_is_kept_of_an_error_names_no_page(memory: trails.Repository) -> None:
    memory.create(id="desk").persist()
    ledger = trails.Ledger(memory)
    ledger.receive("desk", "Hello")

    def handler(running: object) -> str:
        raise InvalidInput("the model has no such tool")

    with pytest.raises(InvalidInput):
        ledger.process("desk", handler)
    (failed,) = ledger.exchanges("desk")
    assert failed.error == "InvalidInput: the model has no such tool"


# --- on the command line


def test_a_command_that_fails_names_the_page(run: Run) -> None:
    run("init")
    found = run("show", "nobody")
    assert found.exit_code == 2
    assert found.stderr.rstrip().endswith("(trails guide errors/session-not-found)")


def test_wrong_usage_keeps_its_form() -> None:
    found = invoke("show", "--no-such-option")
    assert "trails guide" not in found.stderr


def test_the_pages_of_errors_are_listed() -> None:
    found = invoke("guide", "errors")
    assert "errors/head-conflict" in found.stdout
    listed = json.loads(invoke("guide", "errors", "--json").stdout)["pages"]
    assert [each["name"] for each in listed] == list(error_pages())


def test_the_page_of_an_error_is_shown() -> None:
    assert invoke("guide", "errors/head-conflict").stdout == read_page("errors/head-conflict").text


def test_an_error_that_has_no_page_is_refused_with_the_nearest() -> None:
    found = invoke("guide", "errors/head-conflicts")
    assert found.exit_code == 2
    assert "errors/head-conflict" in found.stderr
