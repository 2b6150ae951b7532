"""The program `cede`, which `python -m web` is, too."""

from __future__ import annotations


def main() -> None:
    """Run the command line.  Ctrl-C while it is still being imported ends it as quietly as later."""
    try:
        from web.commands.main import main as cede
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    cede(prog_name="cede")


if __name__ == "__main__":
    main()
