"""Ask the store in SPARQL, and by the queries of the catalogue.

Prints:
alice owns urn:trails:session:plan
m-1 1 6
True
2 triples
plan 0 user
"""

import trails

with trails.open(":memory:") as store:
    plan = store.create(id="plan", principal="alice")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Take the train.", model="m-1", usage={"input_tokens": 30, "output_tokens": 6})
    plan.persist()

    for row in store.select("SELECT ?s ?who { ?s a trails:Session ; prov:wasAttributedTo ?who }").to_dicts():
        print(str(row["who"]).rpartition(":")[2], "owns", row["s"])
    for row in store.select("token-usage-by-model").to_dicts():
        print(row["model"], row["calls"], row["output"])
    print(store.ask("ASK { ?turn a trails:Turn }"))
    triples = store.construct("CONSTRUCT { ?t trails:role ?r } WHERE { ?t a trails:Turn ; trails:role ?r }")
    print(len(triples), "triples")
    transcript = store.select("transcript", session="plan")
    first = transcript.to_dicts()[0]
    print("plan", first["index"], first["role"])
