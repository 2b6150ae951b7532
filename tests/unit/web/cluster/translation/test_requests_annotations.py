"""Control of a request over its own fate through the front door."""

from __future__ import annotations

import pytest

from actors.control import NO_CONTROL, Control
from runtime.errors import RequestError
from web.cluster.translation.requests import control_of


def test_the_annotation_of_ours_is_read_and_others_are_not() -> None:
    assert control_of([]) == control_of(["token_ids", "formatted_prompt"]) == NO_CONTROL
    assert control_of(["x", 'cede:{"group": "a/b", "supersede": "e"}']) == Control(group="a/b", supersede="e")
    assert control_of(['cede:{"group": null, "warm": null}']) == NO_CONTROL


@pytest.mark.parametrize(
    ("annotations", "param"),
    [
        (['cede:{"group": "a"}', 'cede:{"supersede": "e"}'], "annotations"),
        (['cede:{"first_wins": true}'], "cede.first_wins"),
        (['cede:{"on_disconnect": "detach"}'], "cede.on_disconnect"),
        (['cede:{"after": "r"}'], "cede.after"),
        (['cede:{"group": "a//b"}'], "group"),
        (['cede:{"band": "a"}'], "band"),
        (["cede:group"], None),
    ],
)
def test_what_cannot_be_done_is_refused(annotations: list[str], param: str | None) -> None:
    with pytest.raises(RequestError) as caught:
        control_of(annotations)
    assert caught.value.param == param
