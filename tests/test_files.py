"""Files from outside: read whole, and never without an end."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trails.errors import InvalidInput
from trails.files import read_whole, write_whole


def test_a_file_without_an_end_is_read_no_further_than_the_most_that_may_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="/dev/zero has more than 1,000 bytes"):
        read_whole(Path("/dev/zero"), 1000)


def test_a_file_of_as_many_bytes_as_may_be_read_is_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"x" * 1000)
    assert read_whole(tmp_path / "key", 1000) == b"x" * 1000


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        write_whole(pipe, lambda out: out.write(b"a page"))
        assert read.result() == b"a page"
    assert pipe.is_fifo()


def test_a_folder_that_is_not_there_is_named_as_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        write_whole(tmp_path / "no" / "page.html", lambda out: out.write(b""))
    assert raised.value.filename == str(tmp_path / "no" / "page.html")
