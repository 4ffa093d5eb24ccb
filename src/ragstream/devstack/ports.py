"""Ports on 127.0.0.1: the given ones, else those of the last start, else free ones."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterable, Mapping

from ragstream.domain.errors import ConfigurationError

__all__ = ["choose_ports", "is_free"]

# Below the range from which systems take the ports of outgoing connections, so that nobody's
# connection sits on a port between two starts.
RANGE = range(20_000, 30_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:``port``."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections linger
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose_ports(
    names: Iterable[str],
    given: Mapping[str, int],
    remembered: Mapping[str, int],
    free: Callable[[int], bool] = is_free,
) -> dict[str, int]:
    """A port for each name. Raises ``ConfigurationError`` if a given one is taken."""
    names = list(names)
    if unknown := sorted(set(given) - set(names)):
        raise ConfigurationError(
            f"no component is called {unknown[0]}: a port can be given for {', '.join(names)}"
        )
    chosen: dict[str, int] = {}
    for name, port in given.items():
        if port in chosen.values():
            raise ConfigurationError(f"port {port} is given twice: choose another for {name}")
        if not free(port):
            raise ConfigurationError(
                f"port {port} for {name} is taken on 127.0.0.1: choose another, "
                "or stop what listens there"
            )
        chosen[name] = port
    for name in names:
        if name not in chosen:
            taken = {*chosen.values(), *(remembered[n] for n in remembered if n != name)}
            chosen[name] = _pick(remembered.get(name), chosen.values(), taken, free)
    return {name: chosen[name] for name in names}


def _pick(
    last: int | None, chosen: Iterable[int], taken: set[int], free: Callable[[int], bool]
) -> int:
    if last is not None and last not in chosen and free(last):
        return last
    for port in random.sample(RANGE, len(RANGE)):
        if port not in taken and free(port):
            return port
    raise ConfigurationError(
        f"no free port between {RANGE.start} and {RANGE.stop} on 127.0.0.1: give the ports"
    )
