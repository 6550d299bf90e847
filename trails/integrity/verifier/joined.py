"""Join the modules of the verifier into the one file that goes out beside an export or in a pack."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import getsource
from typing import Final

from trails import usage
from trails.integrity.verifier import (
    absence,
    answers,
    archive,
    digest_rules,
    dsse,
    ed25519,
    export,
    merkle_checks,
    notes,
    pack,
    program,
    proof_checks,
    quads,
    receipts,
    sessions,
    terms,
    turn_statements,
    turns,
)

VERIFIER_NAME: Final = "verify_export.py"
"""What the file is called where it goes out."""
MODULES: Final = (
    usage, digest_rules, quads, terms, turns, turn_statements, sessions, export, answers, ed25519, merkle_checks, notes,
    proof_checks, dsse, archive, pack, absence, receipts, program,
)  # fmt: skip
"""Each after those that it imports."""
_ERRORS: Final = '''class IntegrityError(Exception):
    """Something signed or proven does not hold."""


class InvalidInput(ValueError):
    """What was given as a key is none."""
'''
"""What stands for the two of `trails.errors`."""


def standalone_verifier() -> bytes:
    """Return `verify_export.py` as it goes out: a program that imports nothing of Trails.

    It stays small: what it imports of the library is imported once, a function that only the package calls is left out, and
    of the docstrings the first lines of what is public stay.
    """
    sources = {module.__name__: getsource(module) for module in MODULES}
    trees = {name: ast.parse(source) for name, source in sources.items()}
    called = {node.id for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imports: dict[str, set[str]] = {}
    bodies = []
    for name, tree in trees.items():
        lines = sources[name].splitlines()
        for text, kept in _docstrings(tree):
            _replace(lines, text, kept)
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                home = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                if home.partition(".")[0] not in ("trails", "__future__"):
                    imports.setdefault(home, set()).update(each.name for each in node.names)
                _replace(lines, node)
            elif isinstance(node, ast.FunctionDef) and node.name not in called:
                _replace(lines, node)
        body = _FOR_CHECKS.sub("", "\n".join(line for line in lines if line != _GONE))
        body = re.sub("\n{4,}", "\n\n\n", body.strip("\n"))
        bodies.append(f"# --- {name.rpartition(chr(46))[2]}\n{body}\n")
    plain = "".join(f"import {name}\n" for name in sorted(imports.pop("")))
    plain += "".join(f"from {home} import {', '.join(sorted(names))}\n" for home, names in sorted(imports.items()))
    head = f'"""{program.__doc__}"""\n\nfrom __future__ import annotations\n\n{plain}'
    return "\n\n".join([head, _ERRORS, *bodies]).encode()


_GONE: Final = "# gone"
_FOR_CHECKS: Final = re.compile("  # (?:noqa|type|fmt): .*|^# --- .*", re.MULTILINE)


def _replace(lines: list[str], node: ast.stmt, text: str = _GONE) -> None:
    last = node.end_lineno or node.lineno
    lines[node.lineno - 1 : last] = [text] + [_GONE] * (last - node.lineno)


def _docstrings(tree: ast.Module) -> Iterator[tuple[ast.Expr, str]]:
    """Yield the texts that say what something is, and what of each goes out."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        for place, each in enumerate(node.body):
            value = each.value if isinstance(each, ast.Expr) else None
            if isinstance(each, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                is_public = not isinstance(node, ast.Module) and place == 0 and not node.name.startswith("_")
                first = " " * each.col_offset + f'"""{value.value.partition(chr(10))[0]}"""'
                yield each, first if is_public or len(node.body) == 1 else _GONE
