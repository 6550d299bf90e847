"""Find what was said, page through sessions, and see the last seven days.

Prints:
plan 0 'Plan a trip to the Alps' (19, 23)
trip-0 trip-1 trip-2
trip-3 trip-4
newest: ['trip-4', 'trip-3', 'trip-2']
The Alps: 1 turns
"""

import trails

with trails.open(":memory:") as store:
    plan = store.create(id="plan", meta={"title": "The Alps", "project": "trips"})
    plan.append("user", "Plan a trip to the Alps")
    plan.persist()
    for number in range(5):
        store.create(id=f"trip-{number}", principal="alice").persist()

    for hit in store.search("alps", limit=5):
        first, *_ = hit.matches
        print(hit.session_id, hit.index, repr(hit.snippet), first)

    page = store.list(principal="alice", limit=3, order="oldest")
    print(*(record.id for record in page))
    while page.cursor is not None:
        page = store.list(principal="alice", limit=3, order="oldest", cursor=page.cursor)
        print(*(record.id for record in page))
    print("newest:", [record.id for record in store.list(since="7d", limit=3)])
    for summary in store.summaries(meta={"project": "trips"}):
        print(f"{summary.name}: {summary.turns} turns")
