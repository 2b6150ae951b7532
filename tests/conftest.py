"""Shared by all tests."""

from __future__ import annotations

import gc
import logging
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tests.fakes.devices.interpreter  # noqa: F401  # before whatever else imports Triton

# isort: split
from collections.abc import Iterator

import torch
from hypothesis import HealthCheck, settings

from tests.live.cluster.clusters import Cluster
from tests.live.fork_server import ForkedServer
from tests.suites import SUITES, is_in_suite
from web.process.signals import SIGNALS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say which tests run, and on what."""
    parser.addoption(
        "--suite",
        choices=SUITES,
        help="quick, the rest of them, or all (full); without it quick, and all of what is named where something is",
    )
    parser.addoption(
        "--rotation",
        metavar="TEXT",
        help="kill the mutants and play the seeds that this text chooses (default: the current commit)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the suite, before pytest-xdist tells its workers of the options."""
    if config.option.suite is None:
        config.option.suite = "quick" if config.args_source is pytest.Config.ArgsSource.TESTPATHS else "full"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that are not of the suite."""
    if collection_path.is_dir() or is_in_suite(collection_path.relative_to(TESTS).as_posix(), config.option.suite):
        return None
    return True


def pytest_collection_finish() -> None:
    """Look for cycles less often: most of what there is was imported, and stays."""
    gc.set_threshold(50_000, 20, 20)


TESTS = Path(__file__).parent

# A test decides nothing by how long something took, nor does Hypothesis for it.
settings.register_profile("cede", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cede")

# A shell lets what it starts in the background ignore SIGINT, and its children with it; tests interrupt theirs by it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The models of the tests are tiny: a second thread only costs barriers, and many on a busy machine.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """End with the test what a command run in this process does to its log, its hooks and its signals."""
    logger = logging.getLogger("cede")
    level, hooks = logger.level, (sys.excepthook, sys.unraisablehook, threading.excepthook)
    handlers = [(number, signal.getsignal(number)) for number in SIGNALS]
    yield
    logger.setLevel(level)
    sys.excepthook, sys.unraisablehook, threading.excepthook = hooks
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The files of a certificate for 127.0.0.1, signed by itself, and of its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("makes its certificate with openssl")
    folder = tmp_path_factory.mktemp("certificate")
    certfile, keyfile = folder / "certificate.pem", folder / "key.pem"
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    command = [openssl, *options.split(), *names, "-keyout", str(keyfile), "-out", str(certfile)]
    subprocess.run(command, check=True, capture_output=True)
    return certfile, keyfile


# Servers in processes of their own, each started when the first test asks for it, and idle when a test begins.  A test
# may hold their devices for as long as it likes, so these have no hang timeout.


@pytest.fixture(scope="session")
def running_four_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    """Room for four, and prompts read in chunks of 64 tokens."""
    flags = ["--slots", "4", "--chunk-tokens", "64", "--hang-timeout", "0"]
    with ForkedServer(tmp_path_factory.mktemp("four"), *flags) as server:
        yield server


@pytest.fixture(scope="session")
def running_one_slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    """Room for one, a long queue, and prompts read in chunks of 64 tokens."""
    flags = ["--slots", "1", "--queue", "300", "--chunk-tokens", "64", "--hang-timeout", "0"]
    with ForkedServer(tmp_path_factory.mktemp("one"), *flags) as server:
        yield server


@pytest.fixture(scope="session")
def running_short_queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    """Room for one, and 16 may wait."""
    flags = ["--slots", "1", "--queue", "16", "--hang-timeout", "0"]
    with ForkedServer(tmp_path_factory.mktemp("short"), *flags) as server:
        yield server


@pytest.fixture
def four_slots(running_four_slots: ForkedServer) -> ForkedServer:
    """Return the server with four slots, once nothing lives that an earlier test began."""
    running_four_slots.wait_idle()
    return running_four_slots


@pytest.fixture
def one_slot(running_one_slot: ForkedServer) -> ForkedServer:
    """Return the server with one slot, likewise."""
    running_one_slot.wait_idle()
    return running_one_slot


@pytest.fixture
def short_queue(running_short_queue: ForkedServer) -> ForkedServer:
    """Return the server with a short queue, likewise."""
    running_short_queue.wait_idle()
    return running_short_queue


# Two workers behind a front door, for the tests of a file; a worker that a test ends is replaced before the next one.


@pytest.fixture(scope="module")
def discovery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder by which the cluster's workers and front door find each other."""
    return tmp_path_factory.mktemp("discovery")


@pytest.fixture(scope="module")
def running_cluster(discovery: Path) -> Iterator[Cluster]:
    """The cluster, in whatever state the last test left it."""
    with Cluster("--discovery-dir", str(discovery)) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    """The cluster, whole and idle."""
    running_cluster.wait_whole()
    return running_cluster
