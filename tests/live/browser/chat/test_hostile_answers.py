"""Answers that are meant to attack whoever reads them: none runs, loads or looks like a part of the page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.live.browser.chat.chat_page import ChatPage

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page, Route

    from tests.live.browser.chromium import Chromium
    from tests.live.server import Server

Json = dict[str, Any]

RUN = "window.hurt=1"
HOSTILE = [
    f"<script>{RUN}</script>",
    f"<script src='data:text/javascript,{RUN}'></script>",
    f"<img src=x onerror={RUN}>",
    f'<img src="x" onerror="{RUN}" alt="a">',
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>x</details>",
    f"<input autofocus onfocus={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<iframe src='javascript:parent.{RUN}'></iframe>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<object data='javascript:{RUN}'></object>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}></style></mglyph></table></mtext></math>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'></noscript>",
    f"<form action='javascript:{RUN}'><button>x</button></form>",
    f"<a href='javascript:{RUN}'>x</a>",
    "<base href='http://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<link rel=stylesheet href='http://evil.example/x.css'>",
    "<style>body { display: none }</style>",
    "<div id=view name=announcer style='position:fixed;inset:0' class='composer fault'>x</div>",
    f"[x](javascript:{RUN})",
    f"[x](JaVaScRiPt:{RUN})",
    f"[x](&#106;avascript:{RUN})",
    f"[x](java\tscript:{RUN})",
    f"[x](data:text/html,<script>{RUN}</script>)",
    f"[x](vbscript:{RUN})",
    "[x](//evil.example/)",
    f"<javascript:{RUN}>",
    f"![x](javascript:{RUN})",
    "![x](http://evil.example/secret.png)",
    f'![x](x"onerror="{RUN})',
    f'![x" onerror={RUN} y="](http://evil.example/)',
    f'[x](http://x "title\\" onmouseover={RUN}")',
    f"[r]\n\n[r]: javascript:{RUN}",
    f'```"><img src=x onerror={RUN}>\ncode\n```',
    f"```html\n<script>{RUN}</script><img src=x onerror={RUN}>\n```",
    f"`<img src=x onerror={RUN}>`",
    f"| <img src=x onerror={RUN}> |\n|---|\n| <script>{RUN}</script> |",
    f"# <img src=x onerror={RUN}>",
    f"- <img src=x onerror={RUN}>\n  - <svg onload={RUN}>",
    f"> <img src=x onerror={RUN}>",
    f"<<script>script>{RUN}<</script>/script>",
    f"<!--><img src=x onerror={RUN}>-->",
    f"<![CDATA[<img src=x onerror={RUN}>]]>",
    f"&lt;img src=x onerror={RUN}&gt;",
    f"\\<img src=x onerror={RUN}\\>",
    f"<scr\0ipt>{RUN}</script>",
    "<x style='background:url(http://evil.example/)'>",
    "[constructor](__proto__)",
    "```__proto__\ncode\n```",
    "```constructor\ncode\n```",
    f"$\\href{{javascript:{RUN}}}{{x}}$",
    f"$\\htmlData{{a=b}}{{x}} \\htmlStyle{{position:fixed}}{{x}}$ $\\text{{<img src=x onerror={RUN}>}}$",
    f"$$\n<img src=x onerror={RUN}> \\includegraphics{{http://evil.example/x.png}}\n$$",
    f"\\[</code><script>{RUN}</script>\\] \\(\\boxed{{x}}\\)",
    f"```display-formula\n<img src=x onerror={RUN}>\n```",
    "\\[ " * 500,
]

FOUND = """
() => {
  const shown = document.querySelector(".transcript");
  const never = "script,style,link,meta,base,iframe,object,embed,img,video,audio,svg,input,[style]," +
    "math:not(:has(> semantics > annotation[encoding='application/x-tex']))";
  const clobbering = ".answer [id],.answer [name],.answer form";
  const found = [...shown.querySelectorAll(`${never},${clobbering}`)].map((element) => element.outerHTML);
  for (const element of shown.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      if (name.startsWith("on")) found.push(element.outerHTML);
      if (["href", "src", "action"].includes(name) && !/^(https?|mailto):/.test(value)) found.push(element.outerHTML);
    }
  }
  for (const element of shown.querySelectorAll(".answer .composer, .answer .fault")) found.push(element.outerHTML);
  return { found, hurt: window.hurt ?? null, hidden: getComputedStyle(document.body).display === "none" };
}
"""
"""What of the page's answers should not be there."""

NOTHING: Json = {"found": [], "hurt": None, "hidden": False}


def harm(chat: ChatPage) -> Json:
    """Return what the answers that are shown have done."""
    for place in range(chat.page.locator(".answer a[href]").count()):  # as one who points at everything
        chat.page.locator(".answer a[href]").nth(place).hover()
    chat.page.evaluate("() => new Promise(requestAnimationFrame)")
    found: Json = chat.page.evaluate(FOUND)
    return found


def outside(chat: ChatPage, server: Server) -> list[str]:
    """Return what was asked of others than the server."""
    return [url for url in chat.watched.asked if not url.startswith((server.url, "data:", "blob:"))]


def stream(text: str, size: int) -> str:
    """A server's answer, in pieces of so many characters."""
    pieces = [{"content": text[place : place + size]} for place in range(0, len(text), size)]
    chunks = [{"choices": [{"delta": piece, "finish_reason": None}], "usage": None} for piece in pieces]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


@pytest.mark.parametrize("size", [3, 100_000])
def test_what_a_model_streams_does_no_harm(chromium: Chromium, four_slots: Server, size: int) -> None:
    def use(page: Page) -> tuple[Json, list[str], list[str]]:
        def answer(route: Route) -> None:
            headers = {"content-type": "text/event-stream"}
            route.fulfill(status=200, headers=headers, body=stream("\n\n".join(HOSTILE), size))

        page.route("**/v1/chat/completions", answer)
        chat = ChatPage(page, four_slots)
        chat.send(HOSTILE[2])
        chat.wait_ended()
        expect(chat.answer).to_contain_text("__proto__")
        expect(chat.answer.locator("math").first).to_be_attached()
        return harm(chat), chat.watched.said, outside(chat, four_slots)

    assert chromium.visit(use) == (NOTHING, [], [])


@pytest.mark.parametrize("show", ["markdown", "text"])
def test_what_a_file_brings_does_no_harm(chromium: Chromium, four_slots: Server, tmp_path: Path, show: str) -> None:
    def use(page: Page) -> tuple[Json, list[str], list[str]]:
        chat = ChatPage(page, four_slots)
        chat.configure(max_tokens=2)
        chat.ask("x")
        (conversation,) = chat.export(tmp_path / "good.json")
        question, answer = conversation["turns"].values()
        conversation |= {"id": "hostile", "title": HOSTILE[2], "turns": {}, "leaf": f"a{len(HOSTILE) - 1}"}
        conversation["settings"] |= {"show": show, "model": HOSTILE[2], "system": HOSTILE[0]}
        parent = None
        for place, text in enumerate(HOSTILE):
            asked = question | {"id": f"q{place}", "parent": parent, "content": text}
            call = {"id": f"c{place}", "name": text, "arguments": text}
            said = {"content": text, "reasoning": text, "toolCalls": [call], "model": text, "error": text}
            parent = f"a{place}"
            given = answer | said | {"id": parent, "parent": asked["id"], "status": ["whole", "failed"][place % 2]}
            conversation["turns"] |= {asked["id"]: asked, parent: given}
        archive = {"format": "cede-conversations", "version": 1, "conversations": [conversation]}
        (tmp_path / "hostile.json").write_text(json.dumps(archive))
        chat.import_(tmp_path / "hostile.json")
        page.get_by_role("button", name=HOSTILE[2], exact=True).click()
        expect(chat.turns).to_have_count(2 * len(HOSTILE))
        return harm(chat), chat.watched.said, outside(chat, four_slots)

    assert chromium.visit(use) == (NOTHING, [], [])
