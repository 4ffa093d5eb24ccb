from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest

from ragstream.devstack.state import Endpoints
from tests.support.stack import running_stack

# Whoever runs the tests may ignore these (`nohup`, a job in the background), which processes that
# the tests start would inherit, and take for a wish.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def stack() -> Iterator[Endpoints]:
    """Endpoints of real services, started when the first test asks for them."""
    with running_stack() as endpoints:
        yield endpoints


# Shared machines are slow at times; what a test does must not depend on it.
hypothesis.settings.register_profile(
    "ragstream", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ragstream")
