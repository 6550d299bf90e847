"""Forty questions that auditors bring, in plain words, and the query or command that answers each."""

from __future__ import annotations

import click
import pytest

from trails.cli import main
from trails.rdf import query_files

QUESTIONS: list[tuple[str, str, str]] = [
    ("AI Act 12", "When was the system in use, and by whom?", "periods-of-use"),
    ("AI Act 12", "Are events missing from the record?", "index-gaps"),
    ("AI Act 12", "Which records lack a time, a model or the usage?", "incomplete-turns"),
    ("AI Act 12", "Do recorded times contradict the order of events?", "times-backwards"),
    ("AI Act 12", "What was the model shown before it answered?", "context-window"),
    ("AI Act 12", "What was it not shown, because it had been summarised?", "context-summarised-away"),
    ("AI Act 14", "Which person checked a result, when, and with which verdict?", "human-checks"),
    ("AI Act 14", "Who let a tool run, or refused it?", "tool-approvals"),
    ("AI Act 19", "Was anything removed before six months were over?", "kept-briefly"),
    ("AI Act 26", "Which model and version answered when?", "model-history"),
    ("AI Act 26", "Did another model answer than the one asked for?", "another-model-answered"),
    ("AI Act 26", "Who set another model, and when?", "model-overrides"),
    ("AI Act 73", "Which incidents are there, and when are they to be reported?", "incidents"),
    ("AI Act 73", "Which answers rest on a faulty turn, tool or payload?", "answers-resting-on"),
    ("GDPR 5", "What should be deleted by now and is not?", "past-due"),
    ("GDPR 6", "On which legal basis are data processed?", "purposes"),
    ("GDPR 6", "Which purposes were stated earlier?", "purpose-history"),
    ("GDPR 15", "Which records concern one person?", "personal-data"),
    ("GDPR 15", "To whom did answers go?", "recipients"),
    ("GDPR 17", "What was erased, by whom and why?", "removals"),
    ("GDPR 17", "Where may an erased text still stand?", "redacted-repeats"),
    ("GDPR 17", "Which backups hold what was erased?", "backups-holding-erased"),
    ("GDPR 30", "Which exports were made, and for whom?", "exports"),
    ("GDPR 32", "Whose words stand together in one transcript?", "two-principals"),
    ("SOC 2", "Who read records?", "record-reads"),
    ("SOC 2", "Did one session read the history of another?", "history-reads"),
    ("SOC 2", "Which sends did a policy deny?", "denied-sends"),
    ("SOC 2", "Which backups were made?", "backups"),
    ("SOC 2", "What did model calls cost, and what is not priced?", "cost"),
    ("SOC 2", "What changed between two audits?", "audit diff"),
    ("ISO 42001", "Which versions of tools answered when?", "tool-versions"),
    ("ISO 42001", "Which instructions was the assistant given?", "system-prompts"),
    ("ISO 42001", "Whose behalf did an agent act on?", "delegations"),
    ("ISO 42001", "Which agents acted without a mandate?", "undelegated-turns"),
    ("ISO 42001", "How far did a tool's output reach in a session?", "answers-after-tool"),
    ("ISO 42001", "Which files did sessions come from?", "imported-files"),
    ("21 CFR 11", "Was a copy or its original altered?", "altered-copies"),
    ("21 CFR 11", "Do digests, log and checkpoint hold?", "verify"),
    ("21 CFR 11", "Is the whole record complete and unaltered, in one report?", "audit report"),
    ("21 CFR 11", "Does the log vouch for the evidence that we were handed?", "audit check"),
]


@pytest.mark.parametrize(("rule", "question", "answer"), QUESTIONS)
def test_a_question_that_auditors_bring_has_a_query_or_a_command(rule: str, question: str, answer: str) -> None:
    if not query_files.exists(answer):
        command: click.Command | None = main
        for word in answer.split():
            assert isinstance(command, click.Group), (rule, question)
            command = command.get_command(click.Context(command), word)
        assert command is not None, (rule, question)


def test_there_are_forty_of_them_and_each_is_asked_once() -> None:
    assert len({question for _, question, _ in QUESTIONS}) == 40
