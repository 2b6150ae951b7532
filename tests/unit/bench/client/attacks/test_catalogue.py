"""The list of attacks: each is made beforehand and is large."""

from __future__ import annotations

import pytest

from bench.client.attacks.catalogue import ATTACKS
from bench.client.attacks.sending import AttackTarget
from bench.client.harness.trace import RequestFailed
from bench.client.scenarios.hostile import Hostile
from tests.fakes.bench import client_of, open_server
from tests.unit.bench.client.scenarios.turns import turn_on


async def test_an_unknown_attack_is_named() -> None:
    async with open_server() as server:
        with pytest.raises(RequestFailed, match="no attacks of these names: tickling; there are a long name, "):
            await Hostile(attacks="tickling").measure(turn_on(server))


async def test_every_attack_is_made_beforehand_and_is_large() -> None:
    async with open_server() as server:
        for prepare in ATTACKS.values():
            prepare(AttackTarget(client_of(server), scale=0.0001))
            assert prepare.__doc__
        assert not server.bodies
