"""Run the frameworks' own test suites on Trails and on their own stores: `make frameworks`.

Each module here runs one suite: `python -m tests.frameworks.NAME` prints one JSON line for each suite that it ran.
"""
