"""Releases that a question asks for, and the indexed releases that can serve as evidence.

What is asked is read from the text alone: whether a release is indexed decides later which
evidence is searched, never what was requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragstream.domain.errors import PermanentError

__all__ = [
    "JAVA",
    "KAFKA",
    "Product",
    "Resolution",
    "Resolutions",
    "VersionConflict",
    "boost",
    "clean_versions",
    "intersect_versions",
    "product",
    "requested_releases",
    "resolve_release",
    "resolve_releases",
    "without_releases",
]

# ASCII word edges, so that "Java 21の新機能" names a release and "javascript 21" does not.
_EDGE = r"(?<![A-Za-z0-9_])"
_END = r"(?![A-Za-z0-9_])"
_PATCH = r"(?:\.[0-9]+)*"
_CONNECTOR = r"\s*(?:,|/|\+|&|vs\.|(?:and|versus|vs)(?![A-Za-z0-9_.]))\s*"
_OR_CONNECTOR = rf"(?:{_CONNECTOR}|\s*or\s+)"  # only where a release can't be taken for a count
# What may follow a bare major of a dotted product: "Kafka 4?" names one, "Kafka 3 brokers" doesn't.
_CLAUSE_END = r"(?=\s*(?:$|[?!,;:)/+&]|\.(?:\s|$)|(?:and|or|vs|versus)\b))"


class VersionConflict(PermanentError):
    """Two version constraints have no release in common."""

    code = "version_conflict"


@dataclass(frozen=True, slots=True)
class Product:
    """A versioned product.

    ``mention`` finds the name followed by a release, ``shorthand`` a connector and a further
    release (``21/24``, ``21 vs 17``); both have the release in group ``release``. ``boost`` is
    the phrase for one release, with ``{v}`` in its place. ``plausible``: lowest and highest
    major that a shorthand number may mean. ``alone`` finds releases that stand apart from the
    name (``in release 2.4``), ``named`` the name by itself. ``legacy_prefix`` is dropped: Java
    ``1.8`` is 8.
    """

    name: str
    mention: re.Pattern[str]
    shorthand: re.Pattern[str]
    boost: str
    plausible: tuple[int, int]
    named: re.Pattern[str]
    alone: re.Pattern[str] | None = None
    legacy_prefix: str = ""

    def normalise(self, release: str) -> str:
        """The release as it is indexed."""
        if self.legacy_prefix and release.startswith(self.legacy_prefix):
            return release[len(self.legacy_prefix) :]
        return release

    def is_plausible(self, release: str) -> bool:
        low, high = self.plausible
        return low <= int(release.partition(".")[0]) <= high


def product(
    name: str,
    aliases: Sequence[str] = (),
    *,
    boost: str | None = None,
    dotted: bool = True,
    plausible: tuple[int, int] = (0, 99),
    legacy_prefix: str = "",
) -> Product:
    """Describe a product by its names.

    ``aliases``: other names, matched without regard to case; a space in one stands for any
    amount of space, none included. ``dotted``: releases look like ``3.7`` or ``2.8.1``, with an
    optional ``v``; otherwise they are whole numbers of up to three digits.
    """
    names = sorted({name, *aliases}, key=len, reverse=True)
    spelled = "|".join(r"\s*".join(map(re.escape, alias.split())) for alias in names)
    if dotted:
        release = r"[0-9]{1,4}(?:\.[0-9]{1,5}){1,3}"
        release = rf"{release}(?:(?=\.x)|{_END})|[0-9]{{1,3}}(?:(?=\.x)|{_END}{_CLAUSE_END})"
        tail = rf"(?P<release>{release})(?:\.x{_END})?"
        mention = rf"{_EDGE}(?:{spelled})[\s:-]*+(?:(?:v|version|release)[\s-]*+)?{tail}"
        shorthand = rf"{_OR_CONNECTOR}v?{tail}"
        alone = re.compile(rf"{_EDGE}(?:release|version)s?[\s-]*+v?{tail}", re.IGNORECASE)
    else:
        legacy = rf"{re.escape(legacy_prefix)}[1-9]{_END}|" if legacy_prefix else ""
        release = rf"{legacy}[0-9]{{1,3}}"
        mention = rf"{_EDGE}(?:{spelled})[\s-]*+(?P<release>{release}){_END}{_PATCH}"
        shorthand = rf"{_CONNECTOR}(?P<release>{release}){_END}{_PATCH}"
        alone = None
    return Product(
        name=name,
        mention=re.compile(mention, re.IGNORECASE),
        shorthand=re.compile(shorthand, re.IGNORECASE),
        boost=boost or f"{name} {{v}} release documentation",
        plausible=plausible,
        named=re.compile(rf"{_EDGE}(?:{spelled}){_END}", re.IGNORECASE),
        alone=alone,
        legacy_prefix=legacy_prefix,
    )


#: Shorthand starts at 6: below it, "Java 21 and 5 examples" counts examples more often.
JAVA = product(
    "java",
    ("java se", "jdk"),
    boost="JDK {v} Java SE {v} Java {v} release documentation",
    dotted=False,
    plausible=(6, 40),
    legacy_prefix="1.",
)
KAFKA = product(
    "kafka",
    ("apache kafka", "kafka streams", "kafka connect"),
    boost="Apache Kafka {v} Kafka {v} release documentation",
    plausible=(0, 9),
)


def requested_releases(
    query: str | None, product: Product, *, assumed: bool = False
) -> tuple[str, ...]:
    """Releases of the product that the query names, in order of mention, each once.

    ``assumed``: the product is what every question is about, so ``in release 2.4`` counts
    without its name.
    """
    found = sorted(_mentions(query or "", product, assumed=assumed), key=lambda m: m.start())
    return tuple(dict.fromkeys(product.normalise(match["release"]) for match in found))


def without_releases(query: str, product: Product, *, assumed: bool = False) -> str:
    """The query without the releases it names: ``acks in Kafka`` for ``acks in Kafka 2.8``.

    For the keyword side once a filter holds the search to those releases. Their pages seldom spell
    their own number; those that do are upgrade notes, which would crowd out the rest.
    """
    spans = [match.span("release") for match in _mentions(query, product, assumed=assumed)]
    kept = []
    position = 0
    for start, end in sorted(set(spans)):
        kept.append(query[position:start])
        position = max(position, end)
    kept.append(query[position:])
    return " ".join("".join(kept).split())


def _mentions(query: str, product: Product, *, assumed: bool) -> Iterator[re.Match[str]]:
    """Every mention of a release, not in order."""
    for match in product.mention.finditer(query):
        yield match
        end = match.end()
        while (more := product.shorthand.match(query, end)) and product.is_plausible(
            product.normalise(more["release"])
        ):
            yield more
            end = more.end()
    if product.alone is not None and (assumed or product.named.search(query)):
        yield from product.alone.finditer(query)


def boost(query: str, product: Product, releases: Sequence[str]) -> str:
    """The text to encode: a phrase for each release, then the query."""
    if not releases:
        return query
    phrases = "; ".join(product.boost.replace("{v}", release) for release in releases)
    return f"{phrases}: {query}"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Indexed releases that serve one request, ascending; ``exact``: they are what was asked."""

    evidence: tuple[str, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Resolutions:
    """``evidence``: union over all requests, ascending. ``relations``: each request's own."""

    evidence: tuple[str, ...]
    relations: Mapping[str, Resolution]


def _parts(release: str) -> tuple[int, ...]:
    """Numeric parts, without trailing zeros so that ``3.0`` equals ``3.0.0``."""
    numbers = [int(part) for part in re.findall(r"[0-9]+", release)]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def resolve_release(requested: str, indexed: Iterable[str]) -> Resolution:
    """Which indexed releases to search for one that was requested.

    The release itself; else all of its line (``3`` is served by 3.6 and 3.7); else the line it
    belongs to (``2.8.1`` by 2.8, not exact); else the nearest below and above, not exact.
    """
    known = sorted(set(indexed), key=lambda release: (_parts(release), release))
    same = tuple(release for release in known if release == requested)
    if not same:
        same = tuple(release for release in known if _parts(release) == _parts(requested))
    if not same:
        same = tuple(release for release in known if release.startswith(f"{requested}."))
    if same:
        return Resolution(same, exact=True)
    lines = [release for release in known if requested.startswith(f"{release}.")]
    if lines:
        return Resolution((max(lines, key=len),), exact=False)
    wanted = _parts(requested)
    below = [release for release in known if _parts(release) < wanted]
    above = [release for release in known if _parts(release) > wanted]
    return Resolution((*below[-1:], *above[:1]), exact=False)


def resolve_releases(requested: Sequence[str], indexed: Iterable[str]) -> Resolutions:
    """Resolve every requested release."""
    known = frozenset(indexed)
    relations = {release: resolve_release(release, known) for release in requested}
    union = {release for relation in relations.values() for release in relation.evidence}
    return Resolutions(tuple(sorted(union, key=_parts)), relations)


def clean_versions(versions: Iterable[str | None] | None) -> tuple[str, ...]:
    """Trimmed, without blanks, each once, order kept."""
    trimmed = (version.strip() for version in versions or () if version)
    return tuple(dict.fromkeys(version for version in trimmed if version))


def intersect_versions(
    existing: Iterable[str] | None, required: Iterable[str] | None
) -> tuple[str, ...]:
    """Releases in both constraints, in the order of ``required``. Empty means unconstrained.

    Raises ``VersionConflict`` when both are constrained and nothing is left.
    """
    have, need = clean_versions(existing), clean_versions(required)
    if not need or not have:
        return need or have
    both = tuple(version for version in need if version in have)
    if not both:
        raise VersionConflict(
            f"conflicting versions: {', '.join(have)} and {', '.join(need)} have none in common"
        )
    return both
