"""The errors that cede raises on purpose, split by whose fault it is.

Each class knows the HTTP status that it maps to and the `type` and `code` of OpenAI's error object, so the web layer
translates without a table of its own, and whoever raises one need not think about HTTP.
"""

from __future__ import annotations

DEVICE_RETRY_SECONDS = 5.0  # a process takes about so long to be restarted; a new device thread is there at once


class CedeError(Exception):
    """Base of the tree; `str(error)` is a sentence for the person who reads the response.

    Attributes:
        status: the HTTP status.
        kind: the `type` of OpenAI's error object.
        code: its `code`.
        retry_after: seconds until it makes sense to try again; None where it does not.
        param: the request's field at fault.
    """

    status = 500
    kind = "server_error"
    code: str | None = None
    retry_after: float | None = None
    param: str | None = None


# --- the client's fault -------------------------------------------------------------------------------------------


class RequestError(CedeError):
    """The request cannot be served as written; sending it again unchanged is pointless."""

    status = 400
    kind = "invalid_request_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class NotFound(RequestError):
    """A name in the URL or in the body means nothing here."""

    status = 404


class UnreadableEncoding(RequestError):
    """The body is compressed in a way that cede does not read."""

    status = 415


class EndedByAnotherRequest(RequestError):
    """The request was ended before it began: with its group, or because of another request."""

    status = 409


class AnswerTooLarge(RequestError):
    """The answer outgrew the memory that one reader may have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="answer_too_large")


# --- nobody's fault: try later -------------------------------------------------------------------------------------


class Unavailable(CedeError):
    """The request is fine, the server cannot take it now; nothing was allocated for it."""

    status = 503
    kind = "unavailable_error"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueFull(Unavailable):
    """The bounded queue has no place left."""

    status = 429
    kind = "rate_limit_error"
    code = "queue_full"


class RateLimited(Unavailable):
    """A client asks for more than its API key may take."""

    status = 429
    kind = "rate_limit_error"
    code = "rate_limit_exceeded"


class QueueTimeout(Unavailable):
    """No slot came free within the queue timeout."""

    code = "queue_timeout"


class DeadlineExceeded(Unavailable):
    """The request's deadline passed before its first token."""

    status = 504
    kind = "timeout_error"
    code = "deadline_exceeded"


class ShuttingDown(Unavailable):
    """Admission is closed; running requests are being finished."""

    code = "shutting_down"


class AnswersUnread(Unavailable):
    """Unread answers took more memory than all of them may, and this one took the most."""

    code = "answers_unread"


class DeviceLost(Unavailable):
    """No step can run, and none will until another device thread can take the place of the one that is gone."""

    code = "device_lost"

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after=DEVICE_RETRY_SECONDS)


class DeviceThreadEnded(DeviceLost):
    """The thread that runs steps has ended.  Nobody writes KV any longer, so another can take its place."""


class DeviceHangs(DeviceLost):
    """The thread that runs steps makes no progress.  It may still write KV, so only its own return helps."""


# --- our fault ----------------------------------------------------------------------------------------------------


class StepFailed(CedeError):
    """The device raised, or its results were not finite, in a step over this request's rows alone."""

    code = "step_failed"


class GrammarFailed(CedeError):
    """An output can no longer be held to its grammar, or a mask could not be computed."""

    code = "grammar_failed"


# --- the operator's fault -----------------------------------------------------------------------------------------


class CheckpointError(CedeError):
    """The model folder is missing, broken, or of a kind that cede does not load; the message names the part."""
