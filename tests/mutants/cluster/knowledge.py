"""Bad edits of what front doors know of a worker: whether it is there, and which blocks of KV it holds."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.simulation import CLUSTER

MEMBERSHIP, EVENTS = "web/cluster/membership.py", "web/cluster/routing.py"

MUTANTS = (
    Mutant(
        "a worker that stops stays in discovery",
        MEMBERSHIP,
        "                await from_asyncio(unregister(self._endpoint))\n",
        "",
        simulation=CLUSTER,
    ),
    Mutant(
        "a worker whose device is back stays out of discovery",
        MEMBERSHIP,
        "                await from_asyncio(self._endpoint.register_endpoint_instance())\n",
        "",
        simulation=CLUSTER,
    ),
    Mutant(
        "a worker goes on taking its device for lost",
        "web/cluster/worker.py",
        "        self._lost = False\n        self._changed.set()\n",
        "        self._lost = False\n",
        simulation=CLUSTER,
    ),
    Mutant(
        "blocks are never taken back",
        EVENTS,
        "            self._publisher.publish_removed([name_of(key) for key in keys])\n",
        "            return\n",
        simulation=CLUSTER,
    ),
    Mutant(
        "a block is told of without the one before it",
        EVENTS,
        "        before = None if parent == self._root else name_of(parent)\n",
        "        before = None\n",
        simulation=CLUSTER,
    ),
)
