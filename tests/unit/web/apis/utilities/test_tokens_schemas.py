"""Every field of the bodies is bounded."""

from __future__ import annotations

import pytest

from tests.unit.web.bounds import unbounded
from web.apis.utilities.tokens import DetokenizeBody, TokenizeBody


@pytest.mark.parametrize("body", [TokenizeBody, DetokenizeBody])
def test_no_field_is_without_a_bound(body: type[TokenizeBody]) -> None:
    assert unbounded(body.model_json_schema()) == []
