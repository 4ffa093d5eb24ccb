from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

from ragstream.devstack.state import Endpoints
from tests.support.stack import running_stack


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
