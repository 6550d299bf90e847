"""Export a session, and read it into another store.

Prints:
2 turns written
2 turns read, 0 problems
same head: True
<!doctype html>
"""

from pathlib import Path

import trails
from trails.exchange.file_import import export_session, import_path

with trails.open(":memory:") as here, trails.open(":memory:") as there:
    plan = here.create(id="plan", principal="alice")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Where to?")
    plan.persist()
    with Path("plan.nq").open("wb") as out:
        written = export_session(here, "plan", "nquads", out)
    print(written.turns, "turns written")
    report = import_path(there, Path("plan.nq"))
    print(f"{report.turns_added} turns read, {len(report.problems)} problems")
    print("same head:", there.load("plan").head == plan.head)
    with Path("plan.html").open("wb") as out:
        export_session(here, "plan", "html", out)
    print(Path("plan.html").read_text("utf-8").splitlines()[0].lower())
