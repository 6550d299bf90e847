"""Files from outside: read whole, and never without an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from trails.errors import InvalidInput
from trails.files import read_whole


def test_a_file_without_an_end_is_read_no_further_than_the_most_that_may_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="/dev/zero has more than 1,000 bytes"):
        read_whole(Path("/dev/zero"), 1000)


def test_a_file_of_as_many_bytes_as_may_be_read_is_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"x" * 1000)
    assert read_whole(tmp_path / "key", 1000) == b"x" * 1000
