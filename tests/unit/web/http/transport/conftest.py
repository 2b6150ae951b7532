"""Shared by the tests of connections."""

import ssl
from pathlib import Path

import pytest


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """The server's side of TLS, with the certificate of the tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context
