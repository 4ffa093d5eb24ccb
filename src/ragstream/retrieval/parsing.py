"""Documents to blocks: paragraphs, code and tables, each with the headings above it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from markdown_it import MarkdownIt
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["Block", "BlockKind", "Parsed", "parse"]


class BlockKind(StrEnum):
    TEXT = "text"
    CODE = "code"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Block:
    """``headings``: outermost first. ``anchor``: id of the nearest heading, where it has one."""

    kind: BlockKind
    text: str
    headings: tuple[str, ...] = ()
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """``title``: what the document calls itself, if it does."""

    title: str | None
    blocks: tuple[Block, ...]


def parse(text: str, media_type: str) -> Parsed:
    """Parse ``text/plain``, ``text/markdown`` or ``text/html``. Raises ValueError for others."""
    match media_type:
        case "text/plain":
            return Parsed(None, tuple(_plain(text)))
        case "text/markdown":
            return _markdown(text)
        case "text/html":
            return _html(text)
        case _:
            raise ValueError(f"can't read {media_type}")


class _Outline:
    """The headings above the present place."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str, str | None]] = []
        self.title: str | None = None

    def enter(self, level: int, text: str, anchor: str | None) -> None:
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        if text:
            self._open.append((level, text, anchor))
            if level == 1 and self.title is None:
                self.title = text

    def block(self, kind: BlockKind, text: str) -> Block:
        headings = tuple(heading for _, heading, _ in self._open)
        return Block(kind, text, headings, self._open[-1][2] if self._open else None)


def _plain(text: str) -> Iterator[Block]:
    for paragraph in re.split(r"\n[ \t]*(?:\n[ \t]*)+", text.replace("\r\n", "\n").strip("\n")):
        if paragraph.strip():
            yield Block(BlockKind.TEXT, paragraph.rstrip())


_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_HEADING_ID = re.compile(r"\s*\{#([^\s}]+)\}\s*$")
_MARKDOWN = MarkdownIt("commonmark").enable("table")


def _markdown(text: str) -> Parsed:
    text = _FRONT_MATTER.sub("", text.replace("\r\n", "\n"))
    lines = text.split("\n")
    outline = _Outline()
    blocks = []
    tokens = _MARKDOWN.parse(text)
    for position, token in enumerate(tokens):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        if token.type == "heading_open":
            heading, anchor = _markdown_heading(tokens[position + 1])
            outline.enter(int(token.tag[1]), heading, anchor)
            continue
        source = "\n".join(lines[token.map[0] : token.map[1]]).strip("\n")
        if token.type == "html_block":
            source = "\n\n".join(block.text for block in _html(source).blocks)
        if source.strip():
            blocks.append(outline.block(_markdown_kind(token), source))
    return Parsed(outline.title, tuple(blocks))


def _markdown_kind(token: Token) -> BlockKind:
    kinds = {
        "fence": BlockKind.CODE,
        "code_block": BlockKind.CODE,
        "table_open": BlockKind.TABLE,
    }
    return kinds.get(token.type, BlockKind.TEXT)


def _markdown_heading(inline: Token) -> tuple[str, str | None]:
    """Text without markup, and its ``{#id}``."""
    kept = ("text", "code_inline", "softbreak")
    text = "".join(
        child.content or " " for child in inline.children or () if child.type in kept
    ).strip()
    if found := _HEADING_ID.search(text):
        return text[: found.start()], found[1]
    return text, None


_SKIPPED = frozenset(
    ("script", "style", "noscript", "template", "svg", "nav", "footer", "iframe", "form", "head")
)
_MAX_DEPTH = 200  # what is nested deeper is taken as plain text
_INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr b bdi bdo cite code data del dfn em font i ins kbd label mark q s samp small span "
        "strong sub sup time tt u var",
    )
)


def _html(text: str) -> Parsed:
    tree = LexborHTMLParser(text)
    named = tree.css_first("title")
    title = _squeeze(named.text()) if named is not None else ""
    walk = _HtmlWalk()
    root = tree.css_first("main, article, [role=main]") or tree.body
    if root is not None:
        walk.visit(root)
        walk.flush()
    return Parsed(title or walk.outline.title, tuple(walk.blocks))


class _HtmlWalk:
    """Collects inline text until a block begins or ends."""

    def __init__(self) -> None:
        self.outline = _Outline()
        self.blocks: list[Block] = []
        self._text: list[str] = []

    def flush(self, prefix: str = "") -> None:
        lines = (_squeeze(line) for line in "".join(self._text).split("\v"))
        text = "\n".join(line for line in lines if line)
        self._text.clear()
        if text:
            self.blocks.append(self.outline.block(BlockKind.TEXT, prefix + text))

    def visit(self, node: LexborNode, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            self._text.append(node.text())
            return
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == "-text":
                self._text.append(re.sub(r"\s+", " ", child.text(deep=False)))
            elif tag == "br":
                self._text.append("\v")
            elif tag in _INLINE:
                self.visit(child, depth + 1)
            elif tag not in _SKIPPED:
                self._block(tag, child, depth)

    def _block(self, tag: str, node: LexborNode, depth: int) -> None:
        self.flush()
        if re.fullmatch(r"h[1-6]", tag):
            self.outline.enter(int(tag[1]), _squeeze(node.text()), _anchor(node))
        elif tag == "pre":
            if code := node.text().strip("\n"):
                self.blocks.append(self.outline.block(BlockKind.CODE, code.rstrip()))
        elif tag == "table":
            if table := "\n".join(_rows(node)):
                self.blocks.append(self.outline.block(BlockKind.TABLE, table))
        else:
            self.visit(node, depth + 1)
            self.flush("- " if tag == "li" else "")


def _rows(table: LexborNode) -> Iterator[str]:
    for row in table.css("tr"):
        cells = [_squeeze(cell.text(separator=" ")) for cell in row.css("th, td")]
        if any(cells):
            yield " | ".join(cells)


def _anchor(heading: LexborNode) -> str | None:
    """Own id, that of an anchor inside, or that of the section it opens."""
    inside = heading.css_first("a[id], a[name]")
    parent = heading.parent
    holders = [heading, inside]
    if parent is not None and parent.tag in ("section", "article", "div"):
        holders.append(parent)
    for holder in holders:
        if holder is not None and (found := holder.id or holder.attributes.get("name")):
            return found
    return None


def _squeeze(text: str) -> str:
    return " ".join(text.split())
