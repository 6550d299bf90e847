"""Files from outside: read whole, and never without an end."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

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


_KILLED = """
import os, signal, sys
from pathlib import Path
from trails.files import part_folder, write_whole
def killed(out):
    out.write(b"half a page")
    out.flush()
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "file":
    write_whole(Path(sys.argv[2]), killed)
else:
    with part_folder(Path(sys.argv[2])) as part, (part / "a").open("wb") as out:
        killed(out)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_kill_left_beside_a_file_goes_with_the_next_writing(tmp_path: Path, kind: str) -> None:
    page = tmp_path / "page.html"
    subprocess.run([sys.executable, "-c", _KILLED, kind, str(page)], check=False)
    [left] = tmp_path.iterdir()
    write_whole(tmp_path / "other.html", lambda out: out.write(b""))
    assert left.exists()
    write_whole(page, lambda out: out.write(b"a page"))
    assert left.exists()  # it may be somebody's who has just begun
    os.utime(left, (0, 0))
    write_whole(page, lambda out: out.write(b"a page"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.html", "page.html"]


def test_a_part_that_is_still_being_written_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    def write(out: BinaryIO) -> None:
        [part] = tmp_path.iterdir()
        os.utime(part, (0, 0))
        write_whole(page, lambda inner: inner.write(b"in between"))
        out.write(b"a page")

    write_whole(page, write)
    assert page.read_bytes() == b"a page"
