"""Refs of stores in memory and on disk go through random steps beside plain lists."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import trails
from tests.support.machines import Size, walk
from tests.support.ref_machine import RefMachine
from trails import Repository


class InMemory(RefMachine):
    """In memory."""

    @classmethod
    def begun(cls) -> Repository:
        return trails.open(":memory:")


class OnDisk(RefMachine):
    """In a folder, which is closed and opened again."""

    folder: ClassVar[Path]

    @classmethod
    def begun(cls) -> Repository:
        cls.folder = Path(tempfile.mkdtemp())
        return trails.open(cls.folder / "s.trails", create=True, durability="process")

    @classmethod
    def again(cls, store: Repository) -> Repository:
        store.close()
        return trails.open(cls.folder / "s.trails", durability="process")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


def test_refs_in_memory_hold_what_lists_hold(size: Size) -> None:
    walk(InMemory, size, quick=(12, 25), all=(40, 50), long=(300, 150))


def test_refs_on_disk_hold_what_lists_hold(size: Size) -> None:
    walk(OnDisk, size, quick=(3, 20), all=(8, 40), long=(100, 150))
