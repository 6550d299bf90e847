"""What a store has under one name: tags, notes, maintenance, proofs."""

import gc
from pathlib import Path

import pytest

import trails


@pytest.mark.parametrize("name", ["tags", "notes", "maintenance", "proofs"])
def test_a_store_is_open_as_long_as_somebody_holds_a_part_of_it(tmp_path: Path, name: str) -> None:
    opened = [trails.open(tmp_path / "store.trails", create=True)]
    held = getattr(opened[0], name)
    opened.clear()
    gc.collect()
    workspace = held._workspace
    assert not workspace.closed
    assert len(workspace.store) == 0
    workspace.close()
