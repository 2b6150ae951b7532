"""The page of the metrics: its formats, its names, and that it agrees with the engine's statistics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.fakes.engine import FakeEngine, as_engine
from tests.fakes.kv_simulation import open_kv_simulation
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.unit.web.apps import make
from web.observability.metrics.metrics import Metrics


def samples(page: bytes) -> Mapping[str, float]:
    """Return each sample without further labels than the model's and the engine's, by its name."""
    return {
        sample.name: sample.value
        for family in parse_text(page.decode())
        for sample in family.samples
        if set(sample.labels) <= {"model_name", "engine"}
    }


def families(page: str) -> set[str]:
    """Return the names of all families."""
    return {family.name for family in parse_text(page)}


async def test_the_format_is_the_one_that_is_asked_for() -> None:
    client = make().test_client()
    plain = await client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "cede_num_requests_running" in families(await plain.get_data(as_text=True))
    asked = {"Accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"}
    openmetrics = await client.get("/metrics", headers=asked)
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    text = await openmetrics.get_data(as_text=True)
    assert text.endswith("# EOF\n")
    assert "cede_generation_tokens" in {family.name for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]


@simulated()
async def test_the_page_agrees_with_the_statistics() -> None:
    async with open_simulation(slots=2) as sim:
        metrics = Metrics(sim.engine)
        with metrics.fed():
            await sim.client(ask("a", prompt(30), max_tokens=9))
            await sim.client(ask("a-again", prompt(30), max_tokens=9))
            await sim.client(ask("b", prompt(40, start=3)), hang_up_after=2)
        told = samples(metrics.page("")[0])
        manager = sim.engine.statistics().manager
        assert told["cede_steps_total"] == manager.steps > 0
        assert told["cede_step_tokens_sum"] == manager.rows
        assert told["cede_prefix_cache_hits_total"] == sum(manager.cache.hits.values()) > 0
        assert told["cede_slots"] == 2
        assert told["cede_num_requests_running"] == 0
        assert told["cede_kv_cache_usage_perc"] == 1 - manager.pool.free / manager.pool.positions
        assert told["cede_kv_pool_resident_positions"] == manager.pool.resident > 0
        assert not any(name.startswith("cede_state") for name in told)


@simulated()
async def test_of_a_model_with_states_the_page_says_what_has_them() -> None:
    async with open_kv_simulation(slots=2, state_buffers=20, ram=0) as sim:
        await sim.client(ask("a", prompt(30), max_tokens=9))
        states = sim.engine.statistics().manager.states
        assert states is not None
        told = samples(Metrics(sim.engine).page("")[0])
        assert told["cede_state_buffers"] == 20
        assert told["cede_state_buffers_named"] == told["cede_state_snapshots"] == states.named > 0
        assert told["cede_state_snapshots_evicted_total"] == 0


@simulated()
async def test_dashboards_of_other_servers_find_their_names() -> None:
    async with open_simulation(slots=2) as sim:
        vllm, llama = Metrics(sim.engine, "vllm"), Metrics(sim.engine, "llamacpp")
        with vllm.fed(), llama.fed():
            await sim.client(ask("a", prompt(30), max_tokens=9))
            await sim.client(ask("b", prompt(40, start=3)), hang_up_after=2)
        pages = {metrics: metrics.page("application/openmetrics-text; version=1.0.0")[0] for metrics in (vllm, llama)}
        told = samples(pages[vllm])
        assert told["vllm:generation_tokens_total"] == told["cede_generation_tokens_total"] >= 9 + 2
        assert told["vllm:iteration_tokens_total_count"] == told["cede_step_tokens_count"]
        reasons = {
            sample.labels["finished_reason"]
            for family in parse_text(pages[vllm].decode())
            for sample in family.samples
            if sample.name == "vllm:request_success_total"
        }
        assert reasons == {"length", "abort"}
        told = samples(pages[llama])
        assert told["llamacpp:prompt_tokens_total"] == sim.engine.statistics().manager.prefill_tokens
        assert told["llamacpp:tokens_predicted_total"] == told["cede_generation_tokens_total"]
        spent = told["llamacpp:tokens_predicted_seconds_total"]
        assert told["llamacpp:predicted_tokens_seconds"] == pytest.approx(
            told["llamacpp:tokens_predicted_total"] / spent
        )
        assert (told["llamacpp:requests_processing"], told["llamacpp:requests_deferred"]) == (0, 0)


@pytest.mark.parametrize("compat", ["none", "vllm", "llamacpp"])
def test_before_anything_has_happened_all_is_told(compat: str) -> None:
    page, _ = Metrics(as_engine(FakeEngine()), compat).page("")
    names = families(page.decode())
    assert {"cede_up", "cede_cancels", "cede_step_seconds", "cede_build_info"} <= names
    assert any(name.startswith(f"{compat}:") for name in names) is (compat != "none")
    assert not any(name.endswith("_created") for name in names)
