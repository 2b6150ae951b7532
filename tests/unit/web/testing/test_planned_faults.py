"""A running server to which a plan of faults happens."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion
from tests.live.http_client import prompt as live_prompt


def test_a_running_server_fails_as_planned(tmp_path: Path) -> None:
    """Loudly; and whoever was not hit is served, before and after."""
    path = tmp_path / "plan.toml"
    path.write_text(
        '[[fault]]\nwhat = "device-error"\nstep = 6\nlayer = 1\n'
        '[[fault]]\nwhat = "mailbox-flood"\nstep = 12\nrequests = 50\n'
        '[[fault]]\nwhat = "thread-death"\nstep = 20\n'
        '[[fault]]\nwhat = "shutdown"\nstep = 40\ngrace = 30\n'
    )
    # Steps one by one: in a burst, one that failed would run again.
    flags = ("--speculate", "off", "--burst", "off", "--chunk-tokens", "64")
    with ForkedServer(tmp_path, *flags, "--chaos", str(path)) as server:
        endings = []
        for seed in range(4):
            with Http1(server, completion(live_prompt(10, seed), 12)) as client:
                client.read_all()
                endings.append(client.errors[0]["code"] if client.errors else client.finish_reason)
        assert endings == ["step_failed", "length", "device_lost", "length"]
        assert {receipt["request_id"][:5] for receipt in server.get("/v1/receipts?limit=1000")["data"]} >= {"chaos"}
        with Http1(server, completion(live_prompt(10, 9), 12)) as client:
            client.read_all()
        assert server.wait_exit() in (0, -signal.SIGTERM)
        said = re.findall(r"WARNING chaos  chaos: (\w+)", server.log())
        assert said == ["this", "DeviceError", "MailboxFlood", "ThreadDeath", "Shutdown"]
