"""Events as chunks."""

from __future__ import annotations

from dataclasses import replace

from actors.core.generation import FinishReason, PromptScored
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import finished, model, token
from web.cluster.translation.chunks import ChunkWriter, MarkingWriter


def writer() -> ChunkWriter:
    return ChunkWriter(model().tokenizer)


def test_tokens_that_came_together_are_one_chunk() -> None:
    assert writer().chunks([token("a"), token("b")]) == [{"index": 0, "token_ids": [97, 98]}]


def test_the_last_chunk_says_why_it_ended_and_what_it_took() -> None:
    (chunk,) = writer().chunks([token("a"), token("b"), finished(tokens=2)])
    assert (chunk["token_ids"], chunk["finish_reason"]) == ([97, 98], "stop")
    assert chunk["completion_usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_each_choice_has_chunks_of_its_own_and_the_last_has_the_tokens_of_all() -> None:
    writes = writer()
    first, second = writes.chunks([token("a", 0), token("b", 1), finished(1, tokens=1)])
    assert (first["index"], second["index"], second["token_ids"]) == (0, 1, [98])
    (last,) = writes.chunks([finished(0, FinishReason.LENGTH, tokens=4)])
    assert (last["finish_reason"], last["completion_usage"]["completion_tokens"]) == ("length", 5)


def test_log_probabilities_stand_beside_their_tokens() -> None:
    likely = replace(token("a"), logprobs=TokenLogprobs(-0.5, ((97, -0.5), (98, -1.5))))
    alone = replace(token("b"), logprobs=TokenLogprobs(-2.0))
    (chunk,) = writer().chunks([likely, alone])
    assert chunk["log_probs"] == [-0.5, -2.0]
    assert [[entry["token_id"] for entry in position] for position in chunk["top_logprobs"]] == [[97, 98], [98]]
    assert chunk["top_logprobs"][0][1] == {"rank": 2, "token_id": 98, "token": "b", "logprob": -1.5, "bytes": [98]}


def test_of_a_marked_output_the_first_token_has_a_number_of_its_own_and_all_of_it_is_spelled() -> None:
    writes = MarkingWriter(model().tokenizer, 1000, 0)
    (first,) = writes.chunks([token("a"), token("b")])
    assert (first["token_ids"], first["text"]) == ([1097, 98], "ab")
    (last,) = writes.chunks([token("c"), replace(finished(tokens=3), text="!")])
    assert (last["token_ids"], last["text"]) == ([99], "c!")


def test_an_output_is_marked_once_wherever_it_goes_on() -> None:
    (chunk,) = MarkingWriter(model().tokenizer, 1000, 2).chunks([token("c"), finished(tokens=1)])
    assert (chunk["token_ids"], chunk["text"]) == ([99], "c")
    usage = chunk["completion_usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (1, 3, 4)


def test_an_output_that_begins_with_nothing_is_marked_later() -> None:
    writes = MarkingWriter(model().tokenizer, 1000, 0)
    assert writes.chunks([PromptScored(0, ((5, None),))]) == []
    (chunk,) = writes.chunks([token("a")])
    assert chunk["token_ids"] == [1097]
