"""What runs agents: keys, policies, routing, runs, the session tree, the ledger."""
