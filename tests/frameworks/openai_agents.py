"""Run the OpenAI Agents SDK's own tests of sessions on Trails and on its SQLite session."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from tests.frameworks import _peer_suites

_FILES: Final = [
    *(
        f"tests/memory/test_{name}.py"
        for name in (
            *(
                "session",
                "session_limit",
                "session_context_wrapper",
                "session_persistence_sanitize",
                "compaction_suffix",
            ),
            *("openai_responses_compaction_session", "compaction_model_visibility"),
        )
    ),
    "tests/extensions/memory/test_encrypt_session.py",
]
_SQLITE: Final = "looks into the SQLite session's own connections, tables, rows or locks"
_ATOMIC: Final = "asks of the SDK's encryption a way to pop that it has for its own SQLite session alone"
_NO_PACKAGE: Final = "needs a package of another backend, which is not installed"
_REASONS: Final = {
    **dict.fromkeys(
        (
            *("test_session::test_sqlite_session_close", "test_session::test_sqlite_session_reaps_connections"),
            *("test_session::test_sqlite_session_keeps_connections", "test_session::test_sqlite_session_pop_item_"),
            *("test_session::test_sqlite_session_get_items_limit_skips", "test_session::test_sqlite_session_rollback"),
            *(
                "test_session::test_sqlite_session_get_items_session_settings",
                "test_session::test_sqlite_session_file_lock",
            ),
            *("test_session::test_sqlite_session_failed_clear", "test_session::test_sqlite_session_failed_pop"),
            *(
                "test_session::test_sqlite_session_post_commit",
                "test_compaction_suffix::test_suffix_transaction_rolls_back",
            ),
            "test_compaction_suffix::test_cancelled_suffix_transaction",
            "test_compaction_suffix::test_failed_encrypted_suffix_transaction",
            "TestOpenAIResponsesCompactionSession::test_settled_",
            "test_encrypt_session::test_encrypted_pop_authentication_is_atomic",
        ),
        _SQLITE,
    ),
    "test_session::test_sqlite_session_failed_add_items": "expects a TypeError for what is no JSON; Trails raises InvalidInput",
    "test_encrypt_session::test_encrypted_pop_preserves_sqlalchemy": _NO_PACKAGE,
    "test_encrypt_session::test_encrypted_session_scan_budget_does_not": _NO_PACKAGE,
    "test_encrypt_session::test_encrypted_pop_": _ATOMIC,
}


def main() -> None:
    """Print one line for the suite."""
    folder = _peer_suites.fetch_tests("openai-agents", version("openai-agents"))
    tools = _peer_suites.fetch_tools("pytest-asyncio==1.5.0", "inline-snapshot==0.36.1")
    own = _peer_suites.run_tests(folder, _FILES, tools=tools)
    trails = _peer_suites.run_tests(folder, _FILES, plugin="_openai_agents_plugin", tools=tools)
    _peer_suites.print_result("openai-agents: sessions", trails, own, _REASONS)


if __name__ == "__main__":
    main()
