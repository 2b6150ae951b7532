"""One known-bad edit."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.simulation import ENGINE, Simulation


@dataclass(frozen=True, slots=True)
class Mutant:
    """A known-bad edit of one file.

    Attributes:
        name: what it does.
        path: of the file that it changes.
        old, new: the edit; `old` is found once.
        tests: that may catch what the simulation does not.
        simulation: that meets it where no test fails.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    simulation: Simulation = ENGINE

    def applied_to(self, source: str) -> str:
        """Return the file's text with the edit.

        Raises:
            ValueError: the old text is not there exactly once; the source has moved on, and the mutant must follow.
        """
        count = source.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name!r}: its old text is {count} times in {self.path}")
        return source.replace(self.old, self.new)
