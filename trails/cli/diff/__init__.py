"""The command `diff`, and how a diff is shown: on a terminal, as text, as a page."""
