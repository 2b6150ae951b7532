"""Streams that are cut at random moments and taken up again, and clients that are killed."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.live.server import PATIENCE, Server, environment

Json = dict[str, Any]

FLAGS = (
    "--slots",
    "4",
    "--context",
    "1024",
    "--queue",
    "64",
    "--max-background",
    "64",
    "--background-events",
    "256MiB",
)
WAYS = ("after", "last-event-id", "starting_after")
PROMPTS = tuple(f"Write number {number} of a long list of things:" for number in range(6))
TOKENS = 120

CLIENT = """
import http.client, json, sys
host, port, path, body = sys.argv[1:]
connection = http.client.HTTPConnection(host, int(port))
connection.request("POST", path, body)
response = connection.getresponse()
print(response.headers["x-request-id"], flush=True)
while data := response.read1(200):
    print(len(data), flush=True)
"""
"""A client that reads a stream and says so; to be killed."""


@dataclass(slots=True)
class Outcome:
    """Result of the cuts."""

    cuts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    killed: int = 0
    killed_in_grace: int = 0
    wrong: list[str] = field(default_factory=list)
    overstays: list[float] = field(default_factory=list)  # seconds from the end of the grace to the cancel

    def __str__(self) -> str:
        """Return it in a line."""
        cuts = ", ".join(f"{number} by {way}" for way, number in self.cuts.items())
        late = max(self.overstays, default=0.0)
        return (
            f"streams cut and taken up: {cuts}; clients killed: {self.killed} detached, {self.killed_in_grace} with a "
            f"grace, of which none was outlived by more than {late:.3f} s beyond it; wrong: {len(self.wrong)}"
        )


def body_of(way: str, prompt: str, **control: object) -> tuple[str, Json]:
    """The path and the body of a stream that may be cut."""
    common = {"stream": True, "temperature": 0, "ignore_eos": True, "cede": {"on_disconnect": "detach"} | control}
    if way == "starting_after":
        return "/v1/responses", {"input": prompt, "max_output_tokens": TOKENS, "store": False} | common
    return "/v1/completions", {"prompt": prompt, "max_tokens": TOKENS} | common


@contextlib.contextmanager
def asking(server: Server, method: str, path: str, body: object = None, **headers: str) -> Any:  # noqa: ANN401
    """A response whose body is to be read; left, its connection is closed."""
    connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        with contextlib.closing(response):
            yield response


def events_in(data: bytes) -> list[bytes]:
    """The events that are whole, without the comment that a stream begins with."""
    events = [event + b"\n\n" for event in data.split(b"\n\n")[:-1]]
    return [event for event in events if not event.startswith(b":")]


def take_up(server: Server, way: str, request_id: str, known: int) -> tuple[int, Any]:
    """The request for the rest of a stream of which so many events are known, as a context."""
    last = known - 1
    if way == "starting_after":
        return last, asking(server, "GET", f"/v1/responses/{request_id}?stream=true&starting_after={last}")
    if way == "after":
        return last, asking(server, "GET", f"/v1/requests/{request_id}/stream?after={last}")
    headers = {"Last-Event-ID": str(last)} if known else {}
    return last, asking(server, "GET", f"/v1/requests/{request_id}/stream", **headers)


def cut(server: Server, way: str, seed: int, texts: dict[str, str], outcome: Outcome) -> None:
    """Cut one stream up to three times, and compare what was read with the stream that nobody cut."""
    dice = random.Random(seed)
    prompt = PROMPTS[seed % len(PROMPTS)]
    path, body = body_of(way, prompt)
    known: list[bytes] = []
    opening = asking(server, "POST", path, body)
    request_id = ""
    for number in range(dice.randint(1, 3) + 1):
        wanted = dice.choice([0, dice.randrange(2000), dice.randrange(40_000)])
        with opening as response:
            assert response.status in (200, 204), response.status  # 204: all of it is known already
            request_id = request_id or response.headers["x-request-id"]
            read = b""
            while len(read) < wanted and (data := response.read1(dice.choice([1, 7, 300, 4000]))):
                read += data
        known += events_in(read)
        outcome.cuts[way] += number > 0
        _, opening = take_up(server, way, request_id, len(known))
    with opening as response:
        known += events_in(response.read()) if response.status == 200 else []
    _, unbroken = take_up(server, way, request_id, 0)
    with unbroken as response:
        whole = events_in(response.read())
    if known != whole:
        outcome.wrong.append(f"{way} {seed}: {len(known)} events, not {len(whole)}, or others")
    if (text := text_of(whole)) != texts[prompt]:
        outcome.wrong.append(f"{way} {seed}: {text!r}, not {texts[prompt]!r}")


def text_of(events: list[bytes]) -> str:
    """The text that a stream tells, whichever API's it is."""
    text = ""
    for event in events:
        data = event.split(b"data: ", 1)[1].strip()
        if data == b"[DONE]":
            continue
        told = json.loads(data)
        if told.get("type") == "response.output_text.delta":
            text += told["delta"]
        text += "".join(choice["text"] for choice in told.get("choices", ()))
    return text


def kill(server: Server, seed: int, texts: dict[str, str], outcome: Outcome) -> None:
    """Kill -9 a client in the middle of its stream.  Detached, it goes on; with a grace, it ends when that is over."""
    dice = random.Random(f"kill {seed}")
    prompt = PROMPTS[seed % len(PROMPTS)]
    detaches = seed % 2 == 0
    grace = 0.1
    _, body = body_of("after", prompt, **({} if detaches else {"on_disconnect": "cancel", "grace_s": grace}))
    if not detaches:
        body["max_tokens"] = 900
    host, port = server.address
    arguments = [sys.executable, "-c", CLIENT, host, str(port), "/v1/completions", json.dumps(body)]
    client = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment())
    assert client.stdout is not None
    with client.stdout:
        request_id = client.stdout.readline().strip()
        for _ in range(dice.randrange(12)):
            client.stdout.readline()
        client.send_signal(signal.SIGKILL)
        client.wait(PATIENCE)
    if detaches:
        outcome.killed += 1
        _, unbroken = take_up(server, "after", request_id, 0)
        with unbroken as response:
            if (text := text_of(events_in(response.read()))) != texts[prompt]:
                outcome.wrong.append(f"killed {seed}: {text!r}, not {texts[prompt]!r}")
        return
    receipts = server.wait_ended(request_id)
    if not receipts:
        return  # the answer was whole before the client was killed
    (receipt,) = receipts
    outcome.killed_in_grace += 1
    kept = server.get("/v1/requests")["detachable"]
    (left,) = (run["detached_at"] for run in kept if run["id"] == request_id)
    outcome.overstays.append(receipt["detected_at"] - left - grace)
    if receipt["reason"] != "client_disconnect" or outcome.overstays[-1] < -0.01:
        outcome.wrong.append(f"killed {seed}: {receipt}")


def run(server: Server, streams: int, kills: int, at_a_time: int = 4) -> Outcome:
    """Cut so many streams by each way, and kill so many clients; return what came of it."""
    outcome = Outcome()
    texts: dict[str, str] = {}
    for prompt in PROMPTS:
        _, body = body_of("after", prompt)
        del body["cede"]
        with asking(server, "POST", "/v1/completions", body) as response:
            texts[prompt] = text_of(events_in(response.read()))
    chat = {prompt: _response_text(server, prompt) for prompt in PROMPTS}
    with ThreadPoolExecutor(at_a_time) as threads:
        jobs = [
            threads.submit(cut, server, way, seed, chat if way == "starting_after" else texts, outcome)
            for seed in range(streams)
            for way in WAYS
        ]
        jobs += [threads.submit(kill, server, seed, texts, outcome) for seed in range(kills)]
        for job in jobs:
            job.result()
    return outcome


def _response_text(server: Server, prompt: str) -> str:
    path, body = body_of("starting_after", prompt)
    del body["cede"]
    with asking(server, "POST", path, body) as response:
        return text_of(events_in(response.read()))
