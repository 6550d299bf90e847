"""Fork one prompt into two arms, score the answers, and compare the arms as a data frame.

Prints:
few 3 21.0
zero 3 31.0
['session', 'score']
True
"""

import trails

with trails.open(":memory:") as store:
    prompt = store.create(id="prompt")
    prompt.append("user", "Plan a trip")
    prompt.persist()
    for arm, base in (("few", 20), ("zero", 30)):
        for run in range(3):
            with prompt.fork(id=f"{arm}-{run}", meta={"arm": arm}) as fork:
                fork.append("assistant", "Done.", model="m-1", usage={"output_tokens": base + run})
            store.score(fork, "score", float(base + run), by="agent:grader")

    found = store.compare("prompt", at=1, columns=["session", "score.score"], group_by="meta.arm")
    for group in found.groups:
        print(group.name, len(group), group.aggregates["score.score"].mean)
    frame = found.to_pandas()
    print([name.removeprefix("score.") for name in frame.columns])
    test = found.test("score.score", "few", "zero")
    print(test.p < 0.2)
