"""Results as a table, a JSON file and a chart."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.cases.chain import MEASURES

__all__ = ["RESULTS", "chart", "machine", "table", "targets", "write"]

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("aiokafka", "faust-streaming", "faststream", "quixstreams", "pydantic", "asyncpg")

Comparison = Mapping[str, Mapping[str, Mapping[str, float]]]


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    found: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def table(comparison: Comparison) -> str:
    """Medians, and in brackets the ratio to plain aiokafka."""
    width = max(map(len, comparison))
    headings = [heading for heading, _ in MEASURES.values()]
    lines = [" " * width + "".join(f"  {heading:>26}" for heading in headings)]
    for peer, measures in comparison.items():
        cells = []
        for name in MEASURES:
            one = measures[name]
            ratio = f" ({one['ratio']:.2f})" if "ratio" in one else ""
            cells.append(f"{_number(one['median'])}{ratio}")
        lines.append(f"{peer:{width}}" + "".join(f"  {cell:>26}" for cell in cells))
    return "\n".join(lines)


def targets(results: Mapping[str, Any]) -> list[str]:
    """Each target and what was measured, as far as it was."""
    lines = []
    chain = results.get("chain", {})
    ours = chain.get("ragstream")
    if ours and "raw" in chain:
        p50, p99, burst = (ours[name] for name in ("p50", "p99", "burst"))
        lines.append(_line("p50 to raw", p50["ratio"], 1.3, "<="))
        lines.append(_line("p99 to raw", p99["ratio"], 2.0, "<="))
        lines.append(_line("burst to raw (aim)", burst["ratio"], 0.5, ">="))
        for other, least in (("faust", 2.0), ("faststream", 1.0)):
            if other in chain:
                ratio = burst["median"] / chain[other]["burst"]["median"]
                lines.append(_line(f"burst to {other}", ratio, least, ">="))
                ratio = p50["median"] / chain[other]["p50"]["median"]
                lines.append(_line(f"p50 to {other}", ratio, 1.0, "<="))
    if slow := results.get("slow"):
        lines.append(_line("200 calls of 2 s: share of ideal", slow["share"], 0.95, ">="))
        ratio = slow["beside_p50"] / slow["idle_p50"]
        lines.append(f"  other stages beside them, p50 to idle: {ratio:.2f}")
    if backlog := results.get("backlog"):
        lines.append(_line("memory, backlog 100k to 1k", backlog["ratio"], 1.2, "<="))
    for one in results.get("failover", ()):
        most = 12.0 if one["signal"] == "SIGKILL" else 5.0
        lines.append(_line(f"served again after {one['signal']}, s", one["seconds"], most, "<="))
        lines.append(f"  of these records lost {one['lost']}, repeated {one['copies']}")
    return lines


def write(results: Mapping[str, Any], name: str) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path


def chart(
    comparison: Comparison, name: str, shown: Sequence[str] = ("p50", "burst", "cpu")
) -> Path:
    """Bars: median, with least and most over the rounds."""
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "ragstream"
    figure, axes = pyplot.subplots(1, len(shown), figsize=(4 * len(shown), 3), layout="constrained")
    peers = list(comparison)[::-1]
    colours = ["#c2410c" if peer.startswith("ragstream") else "#94a3b8" for peer in peers]
    for axis, measure in zip(axes, shown, strict=True):
        one = [comparison[peer][measure] for peer in peers]
        middle = [value["median"] for value in one]
        spread = [
            [value["median"] - value["least"] for value in one],
            [value["most"] - value["median"] for value in one],
        ]
        axis.barh(peers, middle, xerr=spread, color=colours, error_kw={"elinewidth": 0.8})
        heading, more = MEASURES[measure]
        axis.set_title(f"{heading} ({'more' if more else 'less'} is better)", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    path = RESULTS / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def _line(what: str, value: float, limit: float, relation: str) -> str:
    met = value <= limit if relation == "<=" else value >= limit
    return f"{'+' if met else '-'} {what}: {value:.2f} (target {relation} {limit:g})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
