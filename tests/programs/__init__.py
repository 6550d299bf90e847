"""Short programs as users write them. `tests/whole/test_typed_programs.py` runs each and has two type checkers read it."""
