"""A page that nobody has invited, in a real browser: whatever it tries, it makes nothing run, and it reads nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.operations import OPERATIONS
from tests.live.browser.chromium import REBOUND
from tests.live.server import COMPLETIONS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.live.browser.chromium import Chromium
    from tests.live.browser.pages import PageServer
    from tests.live.server import Server

Json = dict[str, Any]

JSON_TYPE = {"Content-Type": "application/json"}

ATTACK = Path(__file__).with_name("attack.js")
EXAMPLES = {
    (operation.method.upper(), operation.path): operation.example or {"model": "x", "prompt": "x", "max_tokens": 2}
    for operation in OPERATIONS
}


EVERY_WAY = (COMPLETIONS, "/v1/receipts", "/v1/requests/x")
"""Routes on which every way is tried; on the others it is one of each kind, for the browser takes its time."""
FEW_WAYS = {
    "POST": ("simple: no-cors, text", "simple: form, text", "asks: fetch, JSON"),
    "GET": ("fetch", "script", "frame"),
    "DELETE": ("fetch",),
}


def targets(response_id: str = "resp_x") -> list[Json]:
    """Each route of the server, as a page would ask it."""
    names = {"name": "cede-embedded", "response_id": response_id}
    aims = []
    for (method, template), body in EXAMPLES.items():
        path = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "x"), template)
        ways = None if path in EVERY_WAY else FEW_WAYS[method]
        aims.append({"method": method, "path": path, "body": body, "ways": ways})
    return aims


@dataclass(frozen=True)
class Attack:
    """Results of a page's tries.

    Attributes:
        outcomes: of each try, as attack.js has them.
        statuses: of the server's answers, also of those that the browser kept from the page; some it does not tell.
    """

    outcomes: list[Json]
    statuses: Counter[int]

    @property
    def read(self) -> list[Json]:
        """The tries by which the page has read something."""
        return [outcome for outcome in self.outcomes if outcome["read"] is not None]


def attacked(page: Page, origin: str, base: str, aims: list[Json]) -> Attack:
    """Let a page of an origin try all that it can on a server."""
    page.goto(f"{origin}/")
    page.add_script_tag(path=ATTACK)
    statuses = Counter[int]()
    page.on("response", lambda answer: statuses.update([answer.status] if answer.url.startswith(base) else []))
    return Attack(page.evaluate("([base, targets]) => attack(base, targets)", [base, aims]), statuses)


def what_ran(server: Server) -> tuple[Json, Json, Json]:
    """All that changes when something is generated or cancelled."""
    statistics = server.get("/v1/statistics")
    counts = {name: statistics["manager"][name] for name in ("steps", "rows", "queued", "cancels")}
    requests = server.get("/v1/requests")
    # Answers that are kept for clients who come back go by themselves, when their time is over.
    requests["detachable"] = [one for one in requests["detachable"] if one["status"] != "ended"]
    return counts, server.get("/v1/receipts"), requests


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """One that no other origin may ask, or one that a friend may."""
    found: Server = request.getfixturevalue({"default": "four_slots", "friendly": "friendly"}[request.param])
    return found


@pytest.fixture
def stored(server: Server) -> Iterator[str]:
    """The id of a response that somebody else has stored."""
    asked = {"input": "x", "max_output_tokens": 2, "store": True}
    status, answer = server.ask("POST", "/v1/responses", asked, **JSON_TYPE)
    assert status == 200, answer
    server.wait_idle()
    yield answer["id"]
    assert server.ask("DELETE", f"/v1/responses/{answer['id']}")[0] == 200, "the page has not deleted it"


@pytest.mark.parametrize(
    ("server", "origin"), [("default", "stranger"), ("friendly", "neighbour")], indirect=["server"]
)
def test_a_page_of_another_origin_makes_nothing_run_and_reads_nothing(
    chromium: Chromium, pages: PageServer, server: Server, stored: str, origin: str
) -> None:
    before, began = what_ran(server), len(server.log())
    attack = chromium.visit(lambda page: attacked(page, getattr(pages, origin), server.url, targets(stored)))
    assert attack.read == []
    assert attack.statuses.keys() == {403}, "whatever the browser would have shown to the page"
    sent = Counter(o["path"] for o in attack.outcomes if o["by"].startswith("simple"))
    assert len(sent) > 10, "routes of all APIs"

    def refused() -> Counter[str]:
        return Counter(re.findall(r"'POST (\S+)': 403 'A page", server.log()[began:]))

    wait_for(lambda: refused().total() >= sent.total(), "all that was sent to be refused")
    assert refused() == sent, "the browser has sent it"
    assert what_ran(server) == before


@pytest.mark.parametrize("server", ["default"], indirect=True)
def test_a_page_under_a_rebound_name_makes_nothing_run_and_reads_refusals(
    chromium: Chromium, server: Server, stored: str
) -> None:
    """Its own origin is the server's, so it may send what it likes, and read what it is answered."""
    before = what_ran(server)
    rebound = f"http://{REBOUND}:{server.address[1]}"
    attack = chromium.visit(lambda page: attacked(page, rebound, rebound, targets(stored)))
    assert attack.statuses.keys() == {403}
    assert len(attack.read) > len(attack.outcomes) / 2
    for outcome in attack.read:
        assert f"This server is not asked for by the name '{REBOUND}'" in outcome["read"], outcome
    assert what_ran(server) == before


@pytest.mark.parametrize("server", ["default"], indirect=True)
def test_a_page_of_another_origin_cancels_nothing(chromium: Chromium, pages: PageServer, server: Server) -> None:
    forever = {"input": "x", "background": True, "max_output_tokens": 4000}
    _, begun = server.ask("POST", "/v1/responses", forever, **JSON_TYPE)
    aims = [
        {"method": "DELETE", "path": f"/v1/requests/{begun['id']}", "body": {}},
        {"method": "DELETE", "path": f"/v1/responses/{begun['id']}", "body": {}},
        {"method": "POST", "path": f"/v1/responses/{begun['id']}/cancel", "body": {}},
    ]
    attack = chromium.visit(lambda page: attacked(page, pages.neighbour, server.url, aims))
    assert attack.read == []
    assert server.receipts(begun["id"]) == []
    assert server.ask("DELETE", f"/v1/responses/{begun['id']}")[0] == 200


# --- a page that is invited -------------------------------------------------------------------------------------------

STREAM = """
async ([base, body, abort]) => {
  const controller = new AbortController();
  const headers = { "content-type": "application/json", authorization: "Bearer none" };
  const init = { method: "POST", headers, body: JSON.stringify(body), signal: controller.signal };
  const answer = await fetch(base + "/v1/completions", init);
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    if (abort) { controller.abort(); break; }
  }
  return { status: answer.status, id: answer.headers.get("x-request-id"), text };
}
"""


def streamed(page: Page, origin: str, base: str, body: Json, *, abort: bool) -> Json:
    page.goto(f"{origin}/")
    answer: Json = page.evaluate(STREAM, [base, body, abort])
    return answer


def test_a_page_that_is_invited_streams(chromium: Chromium, pages: PageServer, friendly: Server) -> None:
    body = {"prompt": "x", "max_tokens": 5, "ignore_eos": True, "stream": True}
    answer = chromium.visit(lambda page: streamed(page, pages.friend, friendly.url, body, abort=False))
    assert answer["status"] == 200
    events = [line.removeprefix("data: ") for line in answer["text"].splitlines() if line]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["choices"][0]["finish_reason"] == "length"
    assert json.loads(events[0])["id"] == answer["id"], "the header is shown to the page"


def test_what_it_aborts_is_cancelled(chromium: Chromium, pages: PageServer, friendly: Server) -> None:
    body = {"prompt": "x", "max_tokens": -1, "n": 8, "ignore_eos": True, "stream": True}
    answer = chromium.visit(lambda page: streamed(page, pages.friend, friendly.url, body, abort=True))
    receipts = friendly.wait_ended(answer["id"])
    assert len(receipts) == 8
    assert {receipt["reason"] for receipt in receipts} == {"client_disconnect"}
    friendly.wait_idle()


def test_what_an_invited_page_tries_does_work(chromium: Chromium, pages: PageServer, friendly: Server) -> None:
    """So a page that is not invited was refused for what it is, not for how it asked."""
    aims = [aim for aim in targets() if aim["path"] in (COMPLETIONS, "/v1/receipts")]
    before = what_ran(friendly)
    attack = chromium.visit(lambda page: attacked(page, pages.friend, friendly.url, aims))
    statuses = {outcome["by"]: (outcome["read"] or "nothing")[:3] for outcome in attack.outcomes}
    assert {by for by, status in statuses.items() if status == "200"} == {
        *("asks: fetch, JSON", "asks: fetch, key", "asks: XMLHttpRequest", "asks: worker"),
        *("fetch", "XMLHttpRequest", "worker", "redirect"),
    }
    assert statuses["simple: fetch, text"] == "415"
    assert what_ran(friendly) != before
