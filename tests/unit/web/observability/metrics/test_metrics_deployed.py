"""The dashboard and the alerts in `deploy/` name metrics that there are."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.fakes.engine import FakeEngine, as_engine
from tests.live.metrics.deployed import ALERTS, DASHBOARD, NAME, dashboard, dashboard_expressions, exposed
from tests.sim.detached.visits import BOUNDS
from web.observability.metrics.metrics import Metrics
from web.storage.detached.runs import open_runs


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=["alerts", "dashboard"])
async def test_they_name_nothing_that_the_server_does_not_tell(file: Path) -> None:
    engine = FakeEngine()
    engine.has_disk = True
    async with open_runs(as_engine(engine), BOUNDS) as runs:
        page, _ = Metrics(as_engine(engine), runs=runs).page("")
    named = set(NAME.findall(await trio.Path(file).read_text(encoding="utf-8")))
    assert len(named) > 10
    assert named - exposed(page.decode()) == set()


def test_no_expression_of_the_dashboard_has_an_unknown_variable() -> None:
    assert [expression for expression in dashboard_expressions() if "$" in expression] == []


def test_each_panel_has_its_number_its_place_and_the_chosen_data_source() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (panel["gridPos"]["x"] + across, panel["gridPos"]["y"] + down)
        for panel in panels
        for across in range(panel["gridPos"]["w"])
        for down in range(panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    sources = {panel["datasource"]["uid"] for panel in panels if panel["type"] != "row"}
    assert sources == {"${datasource}"}
