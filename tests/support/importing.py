"""Imports of the same that come in at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

import pytest

from trails import Repository
from trails.exchange import merge as merging
from trails.exchange.merge import merge
from trails.exchange.source_transcript import ImportReport, Transcript
from trails.store.contract import Matching


def merged_at_once(
    monkeypatch: pytest.MonkeyPatch, stores: Sequence[Repository], transcript: Transcript
) -> list[ImportReport]:
    """Import a transcript into each of two handles at once; each looks at what is there before the other has written."""
    found, both = merging.stored_family, threading.Barrier(len(stores))

    def slowly(store: Matching, source: str, source_id: str) -> list[str]:
        family = found(store, source, source_id)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # whoever comes to it meanwhile has read as little
        return family

    monkeypatch.setattr(merging, "stored_family", slowly)
    reports = list[ImportReport]()
    threads = [
        threading.Thread(target=lambda store=store: reports.append(merge(store, transcript))) for store in stores
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return reports
