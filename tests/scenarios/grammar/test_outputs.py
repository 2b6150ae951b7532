"""Output of the embedded model, which writes Python, under grammars."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial

import jsonschema
import pytest
import trio

from actors.core.generation import FinishReason
from actors.engine import Engine
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind, ThoughtBudget
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.text.stop_strings import StopAutomaton
from tests.scenarios.grammar.embedded import GREEDY, Written, closed, open_embedded, schema, write

PERSON = closed(
    name={"type": "string", "maxLength": 12},
    age={"type": "integer", "minimum": 0, "maximum": 150},
    tags={"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
)
DATE = Grammar(GrammarKind.REGEX, r"[12]\d{3}-(0[1-9]|1[0-2])-[0-3]\d")
COLOUR = Grammar(GrammarKind.CHOICE, '["red", "dark blue", "\\"quoted\\" green"]')
SUM = Grammar(GrammarKind.GBNF, 'root ::= number " + " number\nnumber ::= [1-9] [0-9]?\n')
CALL = Grammar(GrammarKind.LARK, 'start: NAME "(" [arg ("," arg)?] ")"\narg: NAME\nNAME: /[a-z]{1,5}/')
THOUGHT = Grammar(GrammarKind.ANY, "", budget=ThoughtBudget(20, "<think>", "</think>", begun=True))
ALL = {"person": PERSON, "date": DATE, "colour": COLOUR, "sum": SUM, "call": CALL}
PROPOSERS = (Proposer.NGRAM, Proposer.MTP, Proposer.DRAFT)


def check(name: str, written: Written) -> None:
    """Check that a finished output is what its grammar says."""
    assert written.reason is FinishReason.STOP, written
    if name == "person":
        person = written.value
        jsonschema.validate(person, jsonschema_of(PERSON))
    elif name == "colour":
        assert written.text in ("red", "dark blue", '"quoted" green')
    else:
        patterns = {
            "date": DATE.source,
            "sum": r"[1-9][0-9]? \+ [1-9][0-9]?",
            "call": r"[a-z]{1,5}\(([a-z]{1,5}(,[a-z]{1,5})?)?\)",
        }
        assert re.fullmatch(patterns[name], written.text), written.text


def jsonschema_of(grammar: Grammar) -> dict[str, object]:
    loaded: dict[str, object] = json.loads(grammar.source)
    return loaded


@pytest.mark.parametrize("temperature", [0.0, 1.5])
async def test_an_output_is_what_its_grammar_says_and_ends_where_it_is_complete(temperature: float) -> None:
    async with open_embedded() as engine:
        for name, grammar in ALL.items():
            for seed in range(3):
                sampling = SamplingParams(temperature=temperature, seed=seed)
                check(name, await write(engine, f"{name}{seed}", grammar, sampling=sampling))


@pytest.mark.parametrize("proposer", PROPOSERS)
@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(temperature=1.2, seed=5)], ids=["greedy", "seeded"])
async def test_tokens_are_the_same_with_and_without_drafts(proposer: Proposer, sampling: SamplingParams) -> None:
    async with open_embedded(proposer) as engine:
        for name, grammar in ALL.items():
            plain = await write(engine, f"{name}/plain", grammar, sampling=sampling, speculate=False)
            drafted = await write(engine, f"{name}/drafted", grammar, sampling=sampling)
            check(name, drafted)
            assert drafted.tokens == plain.tokens
        assert engine.statistics().speculation.accepted_tokens > 0


@pytest.mark.parametrize("proposer", [Proposer.OFF, *PROPOSERS])
async def test_four_at_a_time_with_cancels_in_between_are_what_each_is_alone(proposer: Proposer) -> None:
    alone: dict[str, Written] = {}
    async with open_embedded() as engine:
        for name, grammar in [*ALL.items(), ("free", None)]:
            alone[name] = await write(engine, name, grammar, max_tokens=40 if grammar is None else 160)
    beside: dict[str, Written] = {}

    async def client(engine: Engine, name: str, grammar: Grammar | None, hang_up_after: int | None) -> None:
        written = await write(
            engine,
            f"{name}/{hang_up_after}",
            grammar,
            hang_up_after=hang_up_after,
            max_tokens=40 if grammar is None else 160,
        )
        if hang_up_after is None:
            beside[name] = written

    async with open_embedded(proposer) as engine, trio.open_nursery() as nursery:
        for name, grammar in [*ALL.items(), ("free", None)]:
            for hang_up_after in (2, None, 5):
                nursery.start_soon(partial(client, engine, name, grammar, hang_up_after))
    assert {name: written.tokens for name, written in beside.items()} == {
        name: written.tokens for name, written in alone.items()
    }


async def test_a_draft_that_rejection_sampling_verifies_is_drawn_under_the_grammar() -> None:
    async with open_embedded(Proposer.DRAFT) as engine:
        for i in range(6):
            sampling = SamplingParams(temperature=1.3, seed=None)
            check("person", await write(engine, str(i), PERSON, sampling=sampling))
        statistics = engine.statistics().speculation
        assert statistics.drafted_tokens > statistics.accepted_tokens > 0


async def test_what_a_grammar_forces_is_drafted_for_nothing() -> None:
    fixed = schema(const={"a_rather_long_name": "and a value that never changes"})
    async with open_embedded(Proposer.NGRAM, draft_tokens=8) as engine:
        written = await write(engine, "forced", fixed)
        assert written.value == {"a_rather_long_name": "and a value that never changes"}
        assert written.finished is not None
        assert written.finished.timings.draft_n_accepted > 3
        plain = await write(engine, "plain", fixed, speculate=False)
        assert plain.tokens == written.tokens


async def test_a_grammar_decides_when_an_output_may_end() -> None:
    """Neither is an end ignored, nor is it put off."""
    async with open_embedded() as engine:
        for more in ({"ignore_eos": True}, {"sampling": SamplingParams(temperature=0, min_tokens=100)}):
            written = await write(engine, str(more), COLOUR, **more)
            check("colour", written)


async def test_stop_strings_and_the_limit_cut_an_output_short() -> None:
    async with open_embedded() as engine:
        stopped = await write(engine, "stop", PERSON, stop=StopAutomaton(['"age"']))
        assert stopped.reason is FinishReason.STOP
        assert stopped.text.startswith("{")
        assert '"age"' not in stopped.text
        cut = await write(engine, "cut", PERSON, max_tokens=4)
        assert (cut.reason, len(cut.tokens)) == (FinishReason.LENGTH, 4)


async def test_what_is_written_comes_piece_by_piece() -> None:
    async with open_embedded() as engine:
        written = await write(engine, "stream", PERSON)
        assert written.deltas > 5
        assert written.text == written.text.strip()


async def test_a_request_with_a_bad_grammar_is_refused_before_it_is_queued() -> None:
    async with open_embedded() as engine:
        with pytest.raises(RequestError, match="uniqueItems") as raised:
            await write(engine, "bad", schema(type="array", uniqueItems=True))
        assert raised.value.param == "response_format"
        assert engine.requests() == []
        assert engine.statistics().manager.queued == 0


@pytest.mark.parametrize("proposer", [Proposer.OFF, *PROPOSERS])
@pytest.mark.parametrize("answer", [None, PERSON])
async def test_a_thought_ends_where_its_budget_does_with_any_drafts(proposer: Proposer, answer: Grammar | None) -> None:
    grammar = THOUGHT
    if answer is not None:
        source = r"start: UNTIL @answer" + "\n" + r'UNTIL[suffix="</think>"]: /(.|\n)*/' + "\n"
        grammar = replace(
            THOUGHT, kind=GrammarKind.LARK, source=source.replace("UNTIL", "until"), embedded=(("answer", answer),)
        )
    async with open_embedded(proposer) as engine:
        closing = engine.model.tokenizer.encode("</think>", add_special_tokens=False)
        end = 20 + len(closing)
        for seed in range(2):
            sampling = SamplingParams(temperature=1.0, seed=seed)
            plain = await write(engine, f"{seed}/plain", grammar, sampling=sampling, speculate=False)
            drafted = await write(engine, f"{seed}/drafted", grammar, sampling=sampling)
            assert drafted.tokens[:end] == plain.tokens[:end]  # sums in another order may tell later ones apart
            assert drafted.tokens[20:end] == closing
            if answer is not None:
                jsonschema.validate(json.loads(drafted.text.partition("</think>")[2]), jsonschema_of(answer))
            else:
                assert len(drafted.tokens) > 60
