"""Steps that begin before anybody has read what the ones before drew: the same tokens, no trace of those dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import torch

from runtime.nn.ahead_model import AheadModel
from runtime.nn.layers.batch import Batch
from runtime.nn.model import Transformer
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from runtime.selftest.rates import placed
from runtime.step.device import MAX_LAYERS_AHEAD
from runtime.step.executor import InlineExecutor
from runtime.step.job import Burst, StepJob
from runtime.step.shortcuts import NextStep
from runtime.step.step import CancelMark, Segment, SegmentOutput, StepResult
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import open_transformer, pages_of, random_tokens, run

PARAMS = (SamplingParams(temperature=0), SamplingParams(seed=5, top_p=0.9), SamplingParams(seed=6, logprobs=3))
LENGTHS = (30, 7, 19)  # of prompts; some behind a window of 16
STEPS = 12
SLACK = 24  # of rings


class Noting(AheadModel):
    """Notes what it is asked to do."""

    def __init__(self, *args: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **more)
        self.noted: list[str] = []

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Begin a step."""
        self.noted.append("begin")
        return super().begin(segments)

    def begin_next(self, batch: Batch) -> int:
        """Begin the next."""
        self.noted.append("begin next")
        return super().begin_next(batch)

    def drop_next(self) -> None:
        """Drop it."""
        self.noted.append("drop next")
        super().drop_next()


NotingT = TypeVar("NotingT", bound=Noting)


class Models(NamedTuple):
    """The same model, with and without the ability; a prompt is in each slot but the last."""

    plain: Transformer
    ahead: Noting

    @property
    def both(self) -> tuple[Transformer, Noting]:
        """The two."""
        return self.plain, self.ahead


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module", params=["llama-bias", "mistral", "gemma2", "qwen3-moe", "deepseek3-plain"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp(request.param)
    FAMILIES[request.param](made)
    return made


def open_as(kind: type[NotingT], folder: Path) -> NotingT:
    """The model in a folder, as one of these."""
    model = open_transformer(folder, slack=SLACK, kind=kind)
    assert isinstance(model, kind)
    return model


@pytest.fixture
def models(folder: Path) -> Models:
    opened = Models(open_transformer(folder, slack=SLACK), open_as(Noting, folder))
    for model in opened.both:
        prefill(model)
    opened.ahead.noted.clear()
    return opened


def prefill(model: Transformer) -> None:
    """Put the prompts into their slots."""
    for slot, length in enumerate(LENGTHS):
        prompt = random_tokens(length, below=200, seed=slot)
        for start in range(0, length, SLACK):
            run(model, [Segment(slot, start, prompt[start : start + SLACK])])


def segments(*, end_ids: tuple[int, ...] = (), params: Sequence[SamplingParams] = PARAMS) -> list[Segment]:
    """The first row behind each prompt."""
    return [
        Segment(slot, length, [7 + slot], sample=SampleSpec(own, length + 1, 0, end_ids=end_ids))
        for slot, (length, own) in enumerate(zip(LENGTHS, params, strict=True))
    ]


async def burst(model: Transformer, rows: Sequence[Segment], steps: int = STEPS) -> StepResult:
    """Steps of one row each."""
    job = StepJob(placed(model, rows), burst=Burst(steps, steps, lambda: True))
    return await InlineExecutor(model).run_step(job)


def tokens(result: StepResult) -> list[list[int]]:
    return [[token.token_id for token in one.tokens] for one in result.segments]


def goes_on(model: Transformer, result: StepResult, rows: Sequence[Segment]) -> list[list[int]]:
    """Return what comes after a burst, in a step of its own."""
    following = [
        replace(
            row,
            start=row.end + len(drawn) - 1,
            token_ids=[drawn[-1]],
            sample=row.sample and row.sample.after(drawn),
            mark=CancelMark(),
        )
        for row, drawn in zip(rows, tokens(result), strict=True)
    ]
    return tokens(run(model, following))


def test_only_a_model_with_the_ability_is_a_next_step(models: Models) -> None:
    assert isinstance(models.ahead, NextStep)
    assert not isinstance(models.plain, NextStep)


async def test_the_tokens_are_those_of_steps_one_by_one(models: Models) -> None:
    found = [await burst(model, segments()) for model in models.both]
    assert found[0].segments[2].tokens == found[1].segments[2].tokens  # log-probabilities, too
    assert tokens(found[0]) == tokens(found[1])
    assert models.ahead.noted == ["begin", *["begin next", "begin"] * (STEPS - 1)]
    assert [result.layers_run for result in found] == [STEPS * models.plain.num_layers] * 2
    assert goes_on(models.plain, found[0], segments()) == goes_on(models.ahead, found[1], segments())


async def test_a_token_that_ends_one_drops_the_next_step_and_leaves_no_trace(models: Models) -> None:
    whole = tokens(await burst(models.plain, segments()))
    ends = whole[1][4]
    expected = next(step for step in range(STEPS) if ends in {drawn[step] for drawn in whole}) + 1
    found = [await burst(model, segments(end_ids=(ends,))) for model in models.both]
    assert [result.steps for result in found] == [expected] * 2
    assert tokens(found[0]) == tokens(found[1])
    assert models.ahead.noted[-2:] == ["begin next", "drop next"]
    assert goes_on(models.plain, found[0], segments()) == goes_on(models.ahead, found[1], segments())
    again = [await burst(model, segments()) for model in models.both]  # over what was dropped
    assert tokens(again[0]) == tokens(again[1]) == whole


async def test_who_depends_on_tokens_that_are_not_read_is_waited_for(models: Models) -> None:
    penalised = replace(PARAMS[1], repetition_penalty=1.3)
    rows = segments(params=(PARAMS[0], penalised, PARAMS[2]))
    found = [await burst(model, rows) for model in models.both]
    assert tokens(found[0]) == tokens(found[1])
    assert models.ahead.noted == ["begin"] * STEPS


class CancelsWhileRead(Noting):
    """A model in which somebody is cancelled while the host reads what a step drew.

    Attributes:
        steps: until that one.
        cancelled: who.
    """

    steps = 0
    cancelled: CancelMark | None = None

    def finish(self, batch: Batch) -> list[SegmentOutput]:
        """Cancel in this step, if it is the one."""
        outputs = super().finish(batch)
        self.steps -= 1
        if self.steps == 0 and self.cancelled is not None:
            self.cancelled.set(lambda: 0.0)
        return outputs


async def test_layers_that_were_begun_for_nobody_are_told_of(folder: Path) -> None:
    model = open_as(CancelsWhileRead, folder)
    prefill(model)
    rows = segments()
    model.steps, model.cancelled = 3, rows[1].mark
    model.noted.clear()
    result = await burst(model, rows)
    assert result.steps == 3
    assert [one.computed for one in result.segments] == [True] * 3  # it was cancelled too late
    after = result.segments[1].layers_after_cancel
    assert after == model.num_layers + MAX_LAYERS_AHEAD, "of this clock all of the step comes later"
    assert [result.segments[slot].layers_after_cancel for slot in (0, 2)] == [0, 0]
    assert model.noted[-1] == "drop next"


async def test_a_step_that_fails_leaves_no_step_begun(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(models.ahead, "_read", fail)
        with pytest.raises(ZeroDivisionError):
            await burst(models.ahead, segments())
    alone = [await burst(model, segments()[1:2]) for model in models.both]
    assert tokens(alone[0]) == tokens(alone[1])
    others = [run(model, segments()[::2]) for model in models.both]
    assert tokens(others[0]) == tokens(others[1])


async def test_a_row_that_is_not_finite_drops_the_next_step(models: Models) -> None:
    model = models.ahead
    for layer in range(model.num_layers):
        for rows in model.kv.read(layer, 1, 3, 4, pages_of(1, model.context)):
            rows.fill_(torch.nan)
    result = await burst(model, segments())
    assert [(one.computed, one.finite) for one in result.segments] == [(True, True), (False, False), (True, True)]
    assert model.noted == ["begin", "begin next", "drop next"]


@pytest.mark.parametrize("changed", [{}, {"token_ids": [199]}, {"start": 5}, {"slot": 3}], ids=str)
def test_what_was_begun_is_gone_on_with_where_it_is_that_alone(models: Models, changed: dict[str, Any]) -> None:
    model = models.ahead
    batch = model.begin(placed(model, segments()))
    for index in range(model.num_layers):
        model.run_layer(batch, index)
    model.begin_next(batch)
    drawn = [output.tokens[0].token_id for output in model.finish(batch)]
    first, *others = [one.followed_by(token) for one, token in zip(batch.segments, drawn, strict=True)]
    assert (model.begin([replace(first, **changed), *others]).layers_ahead > 0) == (not changed)
