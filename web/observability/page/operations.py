"""The routes of the page, for the OpenAPI document."""

from __future__ import annotations

from web.generation.openai_format.answers.objects import Error
from web.openapi.operations import ANY_ROUTE, LISTS, Api, Operation, Parameter, Reply

ROOT, FILES = "/", "/page"
HTML, TEXT, SCRIPT, STYLE, PICTURE = "text/html", "text/plain", "text/javascript", "text/css", "image/svg+xml"

PAGE = Api(
    "Page",
    "The page that shows the server at work.",
    Error,
    (
        Operation(
            "get",
            ROOT,
            "page",
            "The page, for a browser; else whether a server runs, as Ollama's clients ask",
            {200: Reply("The page, or that it runs.", {HTML: None, TEXT: None})},
            errors=ANY_ROUTE | LISTS,
            open=True,
        ),
        Operation(
            "get",
            f"{FILES}/{{name}}",
            "page_file",
            "A part of that page",
            {
                200: Reply("The file.", {SCRIPT: None, STYLE: None, HTML: None, PICTURE: None, TEXT: None}),
                304: Reply("It is the one that the client has."),
            },
            parameters=(
                Parameter("name", "It may hold slashes.", place="path"),
                Parameter("If-None-Match", "The tag of the one that the client has.", place="header"),
            ),
            errors=ANY_ROUTE | LISTS | {404},
            open=True,
        ),
    ),
)
