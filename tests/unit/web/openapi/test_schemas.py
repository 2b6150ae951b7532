"""Schemas of answers, which are dataclasses of the engine's, and `TypedDict`s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired

from typing_extensions import TypedDict

from web.openapi.schemas import SchemaNames


@dataclass(frozen=True, slots=True)
class HouseStatistics:
    """A house.

    It stands.

    Attributes:
        doors, windows: how many there are,
            open ones too; None if nobody has counted.
    """

    doors: int | None
    windows: int | None = 1
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class HouseAt(HouseStatistics):
    """A house in a street.

    Attributes:
        street: whose.
    """

    street: str


class Town(TypedDict):
    """A town.

    Attributes:
        houses: all.
    """

    houses: list[HouseStatistics]
    mayor: NotRequired[str]


class City(Town):
    """A town that is large."""

    corner: HouseAt


SCHEMAS = SchemaNames("X", [], [Town, City]).components


def test_a_dataclass_is_described_by_its_docstring_and_all_of_its_fields_are_written() -> None:
    house = SCHEMAS["XHouse"]
    assert (house["title"], house["description"]) == ("House", "A house.")
    assert house["required"] == ["doors", "windows", "name"]
    number = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    about = {"description": "How many there are, open ones too; null if nobody has counted."}
    assert house["properties"] == {"doors": number | about, "windows": number | about, "name": {"type": "string"}}


def test_one_that_extends_another_says_what_that_one_says() -> None:
    properties = SCHEMAS["XHouseAt"]["properties"]
    assert properties["street"]["description"] == "Whose."
    assert properties["doors"] == SCHEMAS["XHouse"]["properties"]["doors"]
    assert SCHEMAS["XCity"]["properties"]["houses"] == SCHEMAS["XTown"]["properties"]["houses"]


def test_a_typed_dict_says_what_may_be_absent() -> None:
    town = SCHEMAS["XTown"]
    assert town["required"] == ["houses"]
    assert town["properties"]["houses"]["description"] == "All."
    assert town["properties"]["mayor"] == {"type": "string"}
