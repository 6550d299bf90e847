"""Verify a store, redact a text, and delete a session with its forks.

Prints:
verified: True, 0 findings
gone: True
refused: fork
deleted ['plan', 'fork']
after: True
"""

import trails

with trails.open("audited.trails", create=True) as store:
    plan = store.create(id="plan", principal="alice")
    plan.append("user", "My number is 555-0100")
    plan.persist()
    plan.fork(id="fork").persist()
    report = store.verify()
    print(f"verified: {report.ok}, {len(report.findings)} findings")
    store.redact("plan", 0, by="dpo", reason="asked for")
    print("gone:", store.load("plan")[0].redacted)
    try:
        store.delete("plan")
    except trails.HasChildren:
        print("refused:", *(record.id for record in store.branches("plan")))
    print("deleted", store.delete("plan", children="cascade", by="dpo"))
    print("after:", store.verify().ok)
