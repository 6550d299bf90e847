"""The import paths that the guide of version 0.1 showed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SHOWN = (  # as the guide of 0.1 had them
    "from trails.transcripts.formats import export_session, import_bytes, import_path",
    "from trails.transcripts.openclaw.export import export_folder",
    "from trails.transcripts.exporting.parquet import export_tables",
    "from trails.prov import delete_document, document_bytes, documents, draw, export, import_document, validate",
    "from trails.moving.copying import copy",
    "from trails.moving.origins import origins",
    "from trails.ticking import Ticking",
    "from trails.diff import diff, patch",
    "from trails.keys import agent_main_key, build_key",
    "from trails import aio, diff, keys, policy, prov, vocab",
    "import trails.transcripts.formats as formats; formats.import_path",
    "import trails; trails.prov.draw, trails.vocab.TIME, trails.diff.patch, trails.keys, trails.policy",
)


@pytest.mark.parametrize("line", SHOWN)
def test_an_import_of_the_guide_of_0_1_works(line: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_that_a_former_module_never_had_is_an_import_error() -> None:
    line = "from trails.transcripts.formats import nothing_of_the_kind"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=False)
    assert "ImportError: cannot import name 'nothing_of_the_kind'" in done.stderr
