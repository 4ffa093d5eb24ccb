from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.retrieval.versions import (
    JAVA,
    KAFKA,
    Product,
    Resolution,
    VersionConflict,
    boost,
    clean_versions,
    intersect_versions,
    product,
    requested_releases,
    resolve_release,
    resolve_releases,
    without_releases,
)


@pytest.mark.parametrize(
    ("query", "releases"),
    [
        ("Java 1.8 vs 11", ("8", "11")),
        ("jdk1.8.0_202", ("8",)),
        ("Java 21.0.2 vs 24.0.1", ("21", "24")),
        ("Java 21 vs. 24", ("21", "24")),
        ("Java 17, 21 & 25", ("17", "21", "25")),
        ("Java 21の新機能", ("21",)),
        ("Java 24 with JDK 21 and Java SE 24", ("24", "21")),
        ("Java 21 and 3 examples, then JDK 8", ("21", "8")),
        ("Java 21vs24", ()),
        ("release 21 of something", ()),
    ],
)
def test_java(query: str, releases: tuple[str, ...]) -> None:
    assert requested_releases(query, JAVA) == releases


@pytest.mark.parametrize(
    ("query", "releases"),
    [
        ("Kafka 3.7", ("3.7",)),
        ("apache kafka v2.8.1 vs 3.0", ("2.8.1", "3.0")),
        ("kafka-3.7.0", ("3.7.0",)),
        ("Kafka 3.8: default for acks?", ("3.8",)),
        ("Kafka 3 brokers", ()),
        ("Is this in Kafka 4?", ("4",)),
        ("Kafka 3.7.x vs 4", ("3.7", "4")),
        ("Kafka 2.8 or 3.7", ("2.8", "3.7")),
        ("Kafka 2.8, 3.0 and 3 examples", ("2.8", "3.0")),
        ("on the Kafka Streams side in release 3.6", ("3.6",)),
        ("on the broker side in release 2.4", ()),
    ],
)
def test_kafka(query: str, releases: tuple[str, ...]) -> None:
    assert requested_releases(query, KAFKA) == releases


def test_assumed_product_needs_no_name() -> None:
    assert requested_releases("on the broker side in release 2.4", KAFKA, assumed=True) == ("2.4",)


def test_own_product() -> None:
    spring = product("spring boot", ("spring",), plausible=(1, 9))
    assert requested_releases("SpringBoot 3.2 vs 2.7", spring) == ("3.2", "2.7")
    assert boost("why", spring, ["3.2"]) == "spring boot 3.2 release documentation: why"


@given(st.text())
def test_extraction_never_fails(query: str) -> None:
    for known in (JAVA, KAFKA):
        releases = requested_releases(query, known, assumed=True)
        assert len(set(releases)) == len(releases)


@pytest.mark.parametrize(
    ("requested", "indexed", "expected"),
    [
        ("2.8", ["2.8", "3.0"], Resolution(("2.8",), True)),
        ("2.8.1", ["2.8"], Resolution(("2.8",), False)),
        ("2.8.1", ["2.7", "2.8", "3.0"], Resolution(("2.8",), False)),
        ("3.0.0", ["3.0"], Resolution(("3.0",), True)),
        ("3", ["2.8", "3.6", "3.10"], Resolution(("3.6", "3.10"), True)),
        ("3.9", ["3.10", "3.2"], Resolution(("3.2", "3.10"), False)),
    ],
)
def test_dotted_releases_compare_as_numbers(
    requested: str, indexed: list[str], expected: Resolution
) -> None:
    assert resolve_release(requested, indexed) == expected


@given(st.lists(st.integers(1, 99).map(str), max_size=8), st.integers(1, 99).map(str))
def test_resolution_is_nearest(indexed: list[str], requested: str) -> None:
    resolved = resolve_release(requested, indexed)
    assert resolved.exact == (requested in indexed)
    assert bool(resolved.evidence) == bool(indexed)
    between = {int(release) for release in indexed} - {int(r) for r in resolved.evidence}
    for release in between:
        nearest = [int(r) for r in resolved.evidence]
        assert resolved.exact or any(
            abs(one - int(requested)) <= abs(release - int(requested)) for one in nearest
        )


def test_union_is_ascending_and_relations_are_kept() -> None:
    resolved = resolve_releases(["25", "22"], ["21", "25"])
    assert resolved.evidence == ("21", "25")
    assert resolved.relations["25"] == Resolution(("25",), True)
    assert resolved.relations["22"] == Resolution(("21", "25"), False)


def test_constraints() -> None:
    assert clean_versions(None) == ()
    assert intersect_versions([], ["21"]) == ("21",)
    assert intersect_versions(["21"], None) == ("21",)
    with pytest.raises(VersionConflict):
        intersect_versions(["17"], ["21"])


@pytest.mark.parametrize("part", [" -", "kafka ", "java ", "21,", "3.7, ", "version "])
def test_hostile_queries_take_no_longer(part: str) -> None:
    """With quadratic time these would take minutes."""
    for start in ("java", "kafka"):
        for known in (JAVA, KAFKA):
            requested_releases(start + part * 8_000, known, assumed=True)


@pytest.mark.parametrize(
    ("query", "product", "expected"),
    [
        ("What is acks in Kafka 2.8?", KAFKA, "What is acks in Kafka ?"),
        ("Kafka, release 2.4: acks", KAFKA, "Kafka, release : acks"),
        ("Compare Java 21/22 records", JAVA, "Compare Java / records"),
        ("No release", KAFKA, "No release"),
    ],
)
def test_without_releases(query: str, product: Product, expected: str) -> None:
    assert without_releases(query, product) == expected


@given(st.text(alphabet="Java Kafka 0123456789./,vs&", max_size=60))
def test_without_releases_names_fewer(query: str) -> None:
    for one in (JAVA, KAFKA):
        left = without_releases(query, one)
        assert len(left) <= len(query)
        if not requested_releases(query, one):
            assert left == " ".join(query.split())
