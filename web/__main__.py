"""`python -m web` is `cede`."""

from web.cli import main

main(prog_name="cede")
