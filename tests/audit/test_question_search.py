"""`trails queries --search`: readers who do not know Trails ask in words of their own."""

from __future__ import annotations

import json

import pytest

from tests.support.commands import Run
from trails.rdf import query_files
from trails.rdf.query_search import ranked

ASKED: list[tuple[str, str]] = [
    # written before the ranking and the keywords were
    ("Which version of the AI gave this answer last spring?", "model-history"),
    ("Did a person review the decision before it went to the customer?", "human-checks"),
    ("Who got to see the reply?", "recipients"),
    ("How much money did we spend on the language model?", "cost"),
    ("What did the machine know when it said this?", "context-window"),
    ("Which records of Mr Smith do we hold?", "personal-data"),
    ("Who looked at the conversation logs?", "record-reads"),
    ("Was anything erased, and who did it?", "removals"),
    ("Does the erased text still exist in some backup?", "backups-holding-erased"),
    ("Who gave permission for the tool to run?", "tool-approvals"),
    ("Has somebody tampered with the history?", "altered-copies"),
    ("When must the accident be reported to the authorities?", "incidents"),
    ("Why are we allowed to process this person's information?", "purposes"),
    ("Which files left the company?", "exports"),
    ("Which tool calls went wrong?", "failed-tool-calls"),
    ("On whose behalf was the bot acting?", "delegations"),
    ("Was a cheaper model swapped in without telling us?", "another-model-answered"),
    ("Are there holes in the log?", "index-gaps"),
    ("What instructions was the assistant given?", "system-prompts"),
    ("Where did this data come from originally?", "imported-files"),
]
HELD_OUT: list[tuple[str, str]] = [
    # written after the keywords were, and never tuned for
    ("Which software release of the search plugin was running?", "tool-versions"),
    ("Show me everything Carol typed", "turns-by-author"),
    ("Did two customers get mixed up in one chat?", "two-principals"),
    ("Which documents were attached to messages?", "payloads"),
    ("What was cut from the context because it was too long?", "context-summarised-away"),
    ("Have we kept anything longer than the retention period?", "past-due"),
    ("Which messages are still waiting for a reply?", "waiting-messages"),
    ("How long did the tools take?", "tool-time"),
    ("Which helpers did the agent start?", "sub-agents"),
    ("What files did the agent create on disk?", "artifacts"),
    ("Which emails could not be delivered?", "failed-deliveries"),
    ("Which answers were affected by the untrusted web page?", "answers-after-tool"),
    ("Can the result be reproduced?", "reruns"),
    ("What score did the reviewers give?", "scores"),
    ("Which outgoing messages were blocked by policy?", "denied-sends"),
    ("Were logs deleted too early?", "kept-briefly"),
    ("What triggered this answer?", "event-behind-answer"),
    ("Is a time stamp implausible?", "times-backwards"),
    ("Who has moved the release tag?", "ref-history"),
    ("Which agents acted without authority?", "undelegated-turns"),
]


@pytest.mark.parametrize("asked", [ASKED, HELD_OUT], ids=["tuned-for", "held-out"])
def test_a_reader_who_does_not_know_trails_finds_the_query_for_18_of_20_questions(asked: list[tuple[str, str]]) -> None:
    missed = []
    for question, wanted in asked:
        first = [query.name for query in ranked(question, query_files.catalogue().values())[:3]]
        if wanted not in first:
            missed.append((question, wanted, first))
    assert len(asked) == 20
    assert len(missed) <= 2, missed


def test_the_command_lists_what_fits_best_first_and_says_where_nothing_does(run: Run) -> None:
    listed = json.loads(run("queries", "--search", "Who gave permission for the tool to run?", "--json").stdout)
    assert listed["queries"][0]["name"] == "tool-approvals"
    nothing = run("queries", "--search", "zebra")
    assert (nothing.exit_code, nothing.stderr) == (0, "no query is about that; `trails queries` lists them all\n")


def test_a_search_and_a_name_do_not_go_together(run: Run) -> None:
    refused = run("queries", "cost", "--search", "money")
    assert refused.exit_code == 2
    assert "--search" in refused.stderr
