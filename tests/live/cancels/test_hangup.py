"""Hanging up in each phase and by each way, on a real server: the slot comes back and nobody else notices.

Beside each victim a neighbour decodes; its greedy tokens must be those of its solo run.  What can be seen from outside
is aimed at exactly: queued, reading the prompt, the first token, in the middle, after the end.  Two are met by chance
and looked at afterwards: whether the prompt's chunk in flight was cut (`wasted_tokens` says so; the device is held
inside one, and it is tried again until it was), and the last token, where either the hang-up or the end comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from tests.live.cancels.victims import OURS, SHORT
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, Http2, Http2Stream, completion, prompt
from tests.live.server import CHAT, Gone, Json, Server, most_layers_after_cancel, stage, wait_for

CHUNK = 64  # tokens, as the fixture `four_slots` says
LONG = prompt(3800, seed=1)
MOST_DRAFTS = 16  # that a step may verify
LAST = 12  # tokens of a victim that is to reach its end

Way = str
WAYS = ["close", "reset", "half-close", "rst_stream", "delete"]
REASONS = {"delete": "operator"}


class Victim:
    """A request that will be hung up on, over HTTP/1.1 or, for `rst_stream`, HTTP/2."""

    def __init__(self, server: Server, way: Way, body: Json) -> None:
        self.server = server
        self.way = way
        self.connection = Http2(server) if way == "rst_stream" else None
        self.stream: Http1 | Http2Stream = self.connection.open(body) if self.connection else Http1(server, body)
        self.id = self.stream.id

    def hang_up(self) -> None:
        """Leave in the way that was chosen."""
        match self.way, self.stream:
            case "close", Http1() as stream:
                stream.close()
            case "half-close", Http1() as stream:
                stream.half_close()
            case "delete", _:
                assert self.server.ask("DELETE", f"/v1/requests/{self.id}")[0] in (200, 404)
            case _:
                self.stream.reset()

    def leave(self) -> None:
        """Give the socket back."""
        if self.connection is not None:
            self.connection.socket.close()
        elif isinstance(self.stream, Http1):
            self.stream.close()


@pytest.fixture
def victims(four_slots: Server) -> Iterator[Callable[[Way, Json], Victim]]:
    made: list[Victim] = []

    def make(way: Way, body: Json) -> Victim:
        made.append(Victim(four_slots, way, body))
        return made[-1]

    yield make
    for victim in made:
        victim.leave()


def check_receipt(receipt: Json, victim: Victim, phase: str, prompt_tokens: int) -> None:
    """Check what each receipt has to say, whatever the phase."""
    assert receipt["reason"] == REASONS.get(victim.way, "client_disconnect")
    assert stage(receipt["phase"]) == phase
    assert receipt["prompt_tokens"] == prompt_tokens
    assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
    assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
    assert receipt["detected_at"] <= receipt["slot_freed_at"]
    assert receipt["last_kernel_at"] <= receipt["slot_freed_at"]


def check_told(victim: Victim) -> None:
    """Whom an operator has cancelled is told so; whoever has hung up gets nothing more."""
    if victim.way == "delete":
        victim.stream.read_all()
        assert victim.stream.cancelled == "operator"
        assert victim.stream.done
    elif victim.way == "half-close":
        with pytest.raises(Gone):
            victim.stream.read_all()
        assert victim.stream.finish_reason is None


# --- phases that are aimed at ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_queued(four_slots: ForkedServer, neighbour: Http1, victims: Callable[[Way, Json], Victim], way: Way) -> None:
    filler = victims("close", completion([SHORT] * 3, 4000))
    four_slots.wait_state(filler.id, "decode")
    with four_slots.held():  # nobody's end frees a slot
        victim = victims(way, completion(SHORT, 50))
        assert four_slots.states(victim.id) == ["queued"]
        victim.hang_up()
        (receipt,) = four_slots.wait_ended(victim.id)
        assert four_slots.states(filler.id) == ["decode"] * 3
    assert receipt["reason"] == REASONS.get(way, "client_disconnect")
    assert stage(receipt["phase"]) == "queued"
    assert receipt["computed_tokens"] == receipt["kept_tokens"] == receipt["wasted_tokens"] == 0
    assert receipt["last_kernel_at"] is receipt["slot_freed_at"] is None
    check_told(victim)
    filler.hang_up()


@pytest.mark.parametrize("way", WAYS)
def test_while_the_prompt_is_read(
    four_slots: ForkedServer, neighbour: Http1, victims: Callable[[Way, Json], Victim], way: Way
) -> None:
    for _ in range(20):
        victim = victims(way, completion(LONG, 10, cache_prompt=False))
        four_slots.wait_committed(victim.id, CHUNK)
        with four_slots.held():  # inside a chunk, if not in a draft of the neighbour's
            is_read = 0 < four_slots.committed(victim.id) < len(LONG) // 2
            victim.hang_up()
            for _ in range(3):  # the answer comes after the hang-up was seen, as a rule
                four_slots.slots()
        receipts = four_slots.wait_ended(victim.id)
        if not is_read:
            continue  # this process was too slow
        (receipt,) = receipts
        check_receipt(receipt, victim, "prefill", len(LONG))
        check_told(victim)
        assert receipt["kept_tokens"] % CHUNK == 0
        assert receipt["wasted_tokens"] in (0, CHUNK), "only the chunk in flight is lost"
        if receipt["wasted_tokens"]:
            return
    pytest.fail("no hang-up of twenty came inside a chunk")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tokens", [1, 8])
def test_while_it_decodes(
    four_slots: Server, neighbour: Http1, victims: Callable[[Way, Json], Victim], way: Way, tokens: int
) -> None:
    for _ in range(20):
        victim = victims(way, completion(SHORT, 4000))
        victim.stream.read_tokens(tokens)
        victim.hang_up()
        if receipts := four_slots.wait_ended(victim.id):
            break  # otherwise this process was so slow that the end came first
    (receipt,) = receipts
    check_receipt(receipt, victim, "decode", len(SHORT))
    check_told(victim)
    assert receipt["cached_tokens"] + receipt["kept_tokens"] >= len(SHORT) + tokens - 1
    rejected = receipt["drafted_tokens"] - receipt["accepted_tokens"]
    in_flight = 1 + (MOST_DRAFTS if receipt["phase"] == "verify" else 0)
    assert receipt["wasted_tokens"] - rejected <= in_flight, "nothing but the step in flight may be lost"


@pytest.mark.parametrize("way", WAYS)
def test_at_the_last_token(
    four_slots: Server, neighbour: Http1, victims: Callable[[Way, Json], Victim], way: Way
) -> None:
    victim = victims(way, completion(SHORT, LAST))
    victim.stream.read_tokens(LAST - 1)
    victim.hang_up()
    receipts = four_slots.wait_ended(victim.id)
    assert len(receipts) <= 1  # none if the end came first
    for receipt in receipts:
        check_receipt(receipt, victim, "decode", len(SHORT))
        check_told(victim)


@pytest.mark.parametrize("way", WAYS)
def test_after_the_end(four_slots: Server, neighbour: Http1, victims: Callable[[Way, Json], Victim], way: Way) -> None:
    victim = victims(way, completion(SHORT, LAST))
    assert len(victim.stream.read_all()) == LAST
    assert victim.stream.finish_reason == "length"
    victim.hang_up()
    assert four_slots.wait_ended(victim.id) == [], "nothing was cancelled"


# --- answers that are sent whole ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("phase", ["queued", "prefill", "decode"])
def test_an_answer_that_nobody_waits_for(
    four_slots: ForkedServer, neighbour: Http1, victims: Callable[[Way, Json], Victim], way: Way, phase: str
) -> None:
    fillers = 3 if phase == "queued" else 0
    if fillers:
        filler = victims("close", completion([SHORT] * fillers, 4000))
        four_slots.wait_state(filler.id, "decode")
    known = four_slots.requests().keys()
    ids = LONG if phase == "prefill" else SHORT
    body = completion(ids, 4000 if phase == "decode" else 5, stream=False, cache_prompt=False)
    connection = Http2(four_slots) if way == "rst_stream" else None
    with nullcontext() if phase == "decode" else four_slots.held():  # it stays in this phase
        stream: Http1 | Http2Stream = connection.open(body) if connection else Http1(four_slots, body)
        (request_id,) = wait_for(lambda: four_slots.requests().keys() - known, "the request")
        four_slots.wait_state(request_id, phase)
        match way, stream:
            case "close", Http1():
                stream.close()
            case "half-close", Http1():
                stream.half_close()
            case "delete", _:
                assert four_slots.ask("DELETE", f"/v1/requests/{request_id}")[0] == 200
            case _:
                stream.reset()
    try:
        (receipt,) = four_slots.wait_ended(request_id)
        assert (receipt["reason"], stage(receipt["phase"])) == (REASONS.get(way, "client_disconnect"), phase)
        assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
        assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
        if way == "delete":
            status, _, answer = stream.answer()
            assert status == 200
            assert answer["choices"][0]["cede"] == {"cancelled": "operator"}
    finally:
        if connection is not None:
            connection.socket.close()
        elif isinstance(stream, Http1):
            stream.close()
    if fillers:
        filler.hang_up()


# --- one connection, several requests -------------------------------------------------------------------------------


def test_a_stream_reset_costs_that_stream_alone(four_slots: Server, solo: list[int]) -> None:
    with Http2(four_slots) as connection:
        kept = connection.open(completion(OURS, 60))
        other = connection.open(completion(SHORT, 4000))
        other.read_tokens(5)
        other.reset()
        (receipt,) = four_slots.wait_ended(other.id)
        assert receipt["reason"] == "client_disconnect"
        assert kept.read_all() == solo[:60]
        assert kept.finish_reason == "length"


def test_a_connection_that_closes_takes_all_its_streams_along(four_slots: Server) -> None:
    with Http2(four_slots) as connection:
        streams = [connection.open(completion(prompt(20, seed=seed), 4000)) for seed in range(6)]
        ids = [stream.id for stream in streams]
        # Which of them have the slots is chance, since they come in one moment.
        wait_for(lambda: any(one["completion_tokens"] for one in four_slots.requests().values()), "a token of any")
    for request_id in ids:
        (receipt,) = four_slots.wait_ended(request_id)
        assert receipt["reason"] == "client_disconnect"
    four_slots.wait_idle()


def test_a_request_of_several_choices_frees_all_its_slots(four_slots: Server) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "n": 6, "max_tokens": 3000, "ignore_eos": True}
    with Http1(four_slots, body | {"stream": True, "return_token_ids": True}, CHAT) as client:
        client.read_tokens(3)
    receipts = four_slots.wait_ended(client.id)
    assert sorted(receipt["index"] for receipt in receipts) == list(range(6))
    assert [stage(receipt["phase"]) for receipt in receipts].count("queued") == 2
    four_slots.wait_idle()
