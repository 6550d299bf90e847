"""Run the Claude Agent SDK's own tests of session stores on Trails and on its store in memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from tests.frameworks import _peer_suites

_FILES: Final = [
    f"tests/test_{name}.py"
    for name in (
        *("session_helpers_store", "session_import", "session_resume", "session_store_anyio"),
        *("session_store_conformance", "session_summary", "transcript_mirror"),
    )
]
_TURNS = "counts how often the event loop comes round until the store has answered; Trails answers from a worker thread"
_REASONS: Final = {
    "TestListSessionsFromStore::test_load_concurrency_is_bounded": _TURNS,
    "TestListSessionsFromStoreFastPath::test_gap_fill_bounded_concurrency": _TURNS,
    "TestTimeoutsAndErrors::test_cancelled_after_mkdtemp_cleans_temp_dir": _TURNS,
    "TestReceiveLoopFramePeeling::test_eager_flush_mode_appends_per_frame_before_result": _TURNS,
}


def main() -> None:
    """Print one line for the suite."""
    folder = _peer_suites.fetch_tests("claude-agent-sdk", version("claude-agent-sdk"))
    own = _peer_suites.run_tests(folder, _FILES)
    trails = _peer_suites.run_tests(folder, _FILES, plugin="_claude_agent_sdk_plugin")
    _peer_suites.print_result("claude-agent-sdk: session stores", trails, own, _REASONS)


if __name__ == "__main__":
    main()
