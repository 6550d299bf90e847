"""Parts of content that no format knows, or only looks like knowing: every export takes them, and a reader takes the export."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import trails
from trails.exchange.file_import import export_session, import_bytes

ODD: list[Any] = [
    "a text among parts", {}, {"type": None}, {"type": ["text"]}, {"type": {"a": 1}, "text": "b"}, {"type": "text"},
    {"type": "text", "text": {"a": 1}}, {"type": "refusal"}, {"type": "refusal", "refusal": ["no"]},
    {"type": "thinking"}, {"type": "tool_use", "id": ["c"], "name": "ls"},
    {"type": "tool_result", "tool_use_id": {"a": 1}}, {"tool_use_id": ["c"]},
    {"type": "server_tool_use", "id": ["c"], "name": "search"},
    {"type": "web_search_tool_result", "tool_use_id": ["c"]}, {"type": "image"}, {"type": "image", "source": []},
    {"type": "image_url", "image_url": 7},
]  # fmt: skip


@pytest.mark.parametrize("part", ODD, ids=json.dumps)
def test_an_odd_part_goes_out_in_every_format_and_can_be_read_back(part: Any) -> None:
    with trails.open(":memory:") as store:
        session = store.create(id="plan")
        session.append("user", "q")
        session.append("assistant", [part, {"type": "text", "text": "said all the same"}], model="m-1")
        session.append("tool", [part])
        session.persist()
        for form in ("html", "messages", "inspect", "atif"):
            out = io.BytesIO()
            assert export_session(store, "plan", form, out).turns == 3
            assert b"said all the same" in out.getvalue()
            if form != "html":
                with trails.open(":memory:") as again:
                    report = import_bytes(again, out.getvalue(), format=form)
                    assert (report.problems, len(report.sessions_created)) == ([], 1)
