"""The Python examples of the guide as programs, one a page, for type checkers.

`python -m tests.support.typed_programs FOLDER` writes them; `make types` has mypy (strict) check them,
and `make pyright` pyright.
"""

from __future__ import annotations

import ast
import doctest
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_GUIDE: Final = ROOT / "trails" / "guide"
PAGES: Final = (ROOT / "README.md", *sorted(_GUIDE.glob("*.md")), *sorted(_GUIDE.glob("tutorials/*.md")))
"""The pages for tasks: those about errors show what is wrong, some of it for a type checker, too."""
_BLOCK: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(page: str) -> list[str]:
    """Return the statements of a page's Python examples, in order."""
    parser = doctest.DocTestParser()
    return [each.source for block in _BLOCK.findall(page) for each in parser.get_examples(block)]


def program(page: str) -> str:
    """Return a page's examples as one program; what an example shows is printed, unless it is a call.

    >>> print(program("```python\\n>>> x = 1\\n>>> x\\n1\\n```\\n"), end="")
    x = 1
    print(x)
    """
    return "\n".join(_statement(source) for source in examples(page)) + "\n"


def _statement(source: str) -> str:
    (first, *more) = ast.parse(source).body
    if more or not isinstance(first, ast.Expr) or isinstance(first.value, ast.Call):
        return source.rstrip("\n")
    return f"print({ast.unparse(first.value)})"


def write(folder: Path) -> list[Path]:
    """Write a program for every page that has Python examples into a folder; return the files.

    Pages of adapters are left out: their fake models are written without types, as the frameworks' own examples are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for page in PAGES:
        text = program(page.read_text("utf-8"))
        if text.strip() and "trails.adapters" not in text:
            kind = "page_tutorial" if page.parent.name == "tutorials" else "page"
            file = folder / f"{kind}_{page.stem.lower().replace('-', '_')}.py"
            file.write_text(text, "utf-8")
            written.append(file)
    return written


if __name__ == "__main__":
    for each in write(Path(sys.argv[1])):
        sys.stdout.write(f"{each}\n")
