"""The model that is served, in the words of Anthropic's client."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from anthropic.types import ModelInfo

from tests.fakes.engine import model
from web.apis.anthropic.models import model_list, model_object


def test_the_model() -> None:
    shown = model_object(model(name="org/name", created=1_700_000_000, context_length=4096))
    info = ModelInfo.model_validate_json(json.dumps(shown), strict=True)
    assert (info.id, info.display_name, info.max_input_tokens) == ("org/name", "org/name", 4096)
    assert info.created_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert not info.model_extra


def test_the_list_is_one_page() -> None:
    served = model(name="m")
    assert model_list(served) == {"data": [model_object(served)], "first_id": "m", "last_id": "m", "has_more": False}
