"""`python -m web` is `cede`."""

from web.commands.main import main

main(prog_name="cede")
