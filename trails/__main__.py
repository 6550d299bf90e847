"""`python -m trails` is the command line."""

from trails.cli import main

if __name__ == "__main__":
    main(prog_name="trails")
