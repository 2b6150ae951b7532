"""The options that are the server's own: which model, where it listens, whom it serves, and how it is looked after.

Those of the model, of the engine and of the cache stand on the configs of these.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from runtime.common.options import NOT_NEGATIVE, POSITIVE, Option, Range, whole
from runtime.common.units import MIB


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Choice of models, as they are called: a path, hub id, package, short name, or None; and where they are kept."""

    model: Annotated[
        str | None,
        Option(
            "Folder or GGUF file; hub id (org/name, org/name:Q4_K_M); package (pypi:PROJECT); or a short name "
            "(`cede models --known`).",
            aliases=("-m",),
            none=("embedded",),
        ),
    ] = None
    draft_model: Annotated[
        str | None,
        Option(
            "A smaller model of the same vocabulary, called as --model is; the embedded model has one.",
            aliases=("-md", "--model-draft"),
            none=("none",),
        ),
    ] = None
    models_dir: Annotated[
        Path | None,
        Option(
            "Where models from packages are kept; those of the hub lie in its own cache (HF_HOME).",
            unit="folder",
            none=("the user's cache",),
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Listening:
    """Address where requests come in, and its certificate."""

    host: Annotated[str, Option("Address or name to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Option("Port to listen on; 0 picks a free one, on the first of the host's addresses.", whole(0, 65535))
    ] = 8000
    certfile: Annotated[
        Path | None,
        Option("Certificate in PEM: serve HTTPS.", unit="file", aliases=("--ssl-certfile",), none=("none",)),
    ] = None
    keyfile: Annotated[
        Path | None,
        Option(
            "The certificate's key in PEM, where it is not in the same file.",
            unit="file",
            aliases=("--ssl-keyfile",),
            none=("none",),
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Access:
    """Rules of who may ask."""

    api_keys: Annotated[
        tuple[str, ...],
        Option(
            "Serve only those who send a key (Authorization: Bearer), but for /health; `ps` shows what the flag says, "
            "but neither the variable nor the files.",
            unit="key",
            name="api-key",
            secret=True,
        ),
    ] = ()
    api_key_file: Annotated[
        Path | None,
        Option("Keys to serve, one a line, as they are or as `cede keys` writes them.", unit="file", none=("none",)),
    ] = None
    isolate_keys: Annotated[
        str,
        Option(
            "`on`: KV that was computed for one API key is used for no other, so how fast an answer begins tells "
            "nobody what others have asked.",
            words=("off", "on"),
        ),
    ] = "off"
    allowed_origins: Annotated[
        tuple[str, ...],
        Option(
            "Serve web pages of this origin, such as http://localhost:3000; * for any.",
            unit="origin",
            name="allow-origin",
        ),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        Option(
            "Name that clients may ask for on a loopback address, beside localhost, addresses and --host; * for any.",
            unit="name",
            name="allow-host",
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class Wire:
    """Form of answers, where clients differ."""

    reasoning_field: Annotated[
        str,
        Option(
            "Field of chats' answers for what the model thinks: llama-server's and DeepSeek's, or vLLM's.",
            words=("reasoning_content", "reasoning"),
        ),
    ] = "reasoning_content"


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Options of what is kept of answers, and what may run without a client."""

    state_dir: Annotated[
        Path | None,
        Option(
            "Keep stored responses here, across restarts; in memory without it.",
            unit="folder",
            none=("none",),
        ),
    ] = None
    state_size: Annotated[
        int,
        Option("Size of all that is stored; what was not used for longest makes room.", unit="bytes"),
    ] = 256 * MIB
    state_age: Annotated[
        float,
        Option("How long something is stored after it was last used.", POSITIVE, unit="seconds"),
    ] = 30 * 86400.0
    max_background: Annotated[
        int,
        Option(
            "Requests at a time that may go on without a client: background responses, and those that ask to outlive a "
            "hang-up; 0 for none.",
            whole(0),
            unit="requests",
        ),
    ] = 16
    background_timeout: Annotated[
        float, Option("How long a request may go on without a client.", POSITIVE, unit="seconds")
    ] = 3600.0
    background_tokens: Annotated[
        int, Option("Tokens that a request may generate after its client has left.", whole(1), unit="tokens")
    ] = 65536
    background_events: Annotated[
        int,
        Option("Memory for the answers that are kept of such requests when they have ended.", unit="bytes"),
    ] = 32 * MIB
    max_grace: Annotated[
        float,
        Option("The longest grace after a hang-up that a request may ask for.", NOT_NEGATIVE, unit="seconds"),
    ] = 300.0
    max_keep: Annotated[
        float,
        Option("How long a request may ask that its answer is kept.", NOT_NEGATIVE, unit="seconds"),
    ] = 3600.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of how long the server waits for its own work."""

    grace: Annotated[float, Option("How long running requests have at shutdown.", NOT_NEGATIVE, unit="seconds")] = 30.0
    hang_timeout: Annotated[
        float | None,
        Option(
            "Within how long a layer of a step must end, or the device is taken to hang; 0 for no limit.",
            NOT_NEGATIVE,
            unit="seconds",
            none=("none", "0"),
        ),
    ] = 120.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Options by which the workers of a cluster and its front door find each other."""

    discovery: Annotated[
        str,
        Option(
            "Where workers are found: `file`, a folder, for processes on one machine; `etcd`, as ETCD_ENDPOINTS says; "
            "or `kubernetes`.",
            words=("file", "etcd", "kubernetes"),
        ),
    ] = "file"
    discovery_dir: Annotated[
        Path | None,
        Option("Folder of --discovery file.", unit="folder", none=("Dynamo's own, among temporary files",)),
    ] = None
    router: Annotated[
        str,
        Option(
            "Which worker gets a request: `kv`, the one that has most of its KV, unless it is much the busier; or "
            "`round-robin`, each in turn.",
            words=("kv", "round-robin"),
        ),
    ] = "kv"
    namespace: Annotated[str, Option("Workers and front doors of one namespace find each other.")] = "cede"
    control_port: Annotated[
        int,
        Option(
            "Port of the front door's host at which requests of all workers are listed and ended; 0 picks a free one.",
            whole(0, 65535),
        ),
    ] = 0
    model_name: Annotated[
        str | None,
        Option("What requests at the front door call the model.", none=("as /v1/models shows it",)),
    ] = None


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Options of what is said of the server's work, and of what is to go wrong in it."""

    log_level: Annotated[
        str,
        Option(
            "At info, a line for each request that ended or was refused; at debug, one for each response.",
            words=("debug", "info", "warning", "error"),
        ),
    ] = "info"
    log_format: Annotated[
        str,
        Option(
            "`text` for people, `json` for programs, an object a line; `auto` is text on a terminal, else JSON.",
            words=("auto", "text", "json"),
        ),
    ] = "auto"
    log_prompts: Annotated[
        str,
        Option(
            "`on`: the log has what clients ask and what they are answered, 1500 characters of each; whoever may read "
            "the log reads that.",
            words=("off", "on"),
        ),
    ] = "off"
    metrics_compat: Annotated[
        str,
        Option(
            "Tell the metrics under these names, too, for dashboards that exist.",
            words=("none", "vllm", "llamacpp"),
        ),
    ] = "none"
    watch_loop: Annotated[
        float | None,
        Option(
            "Say in the log and in /v1/statistics what held the event loop for so long or longer, such as 10.",
            Range(1, float("inf")),
            unit="milliseconds",
            none=("none",),
        ),
    ] = None
    record: Annotated[
        Path | None,
        Option(
            "Write what the engine does, its steps, slots and queue, for Perfetto (https://ui.perfetto.dev).",
            unit="output",
            none=("none",),
        ),
    ] = None
    chaos: Annotated[
        Path | None,
        Option(
            "A plan of faults, in TOML, to be carried out on this server; on loopback only.",
            unit="file",
            none=("none",),
        ),
    ] = None
