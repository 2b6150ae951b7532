"""All that the application does, with the bodies that it takes."""

from __future__ import annotations

from tests.fakes.engine import FakeEngine, as_engine
from web.openapi.operations import operations_of
from web.serving.app import create_app

OPERATIONS = tuple(operations_of(create_app(as_engine(FakeEngine()))))
