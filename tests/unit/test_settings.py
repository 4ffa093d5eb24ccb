"""Settings: the reference's tables, precedence, and errors that say what to change."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ragstream.domain.errors import ConfigurationError
from ragstream.retrieval.versions import JAVA, KAFKA, boost, requested_releases
from ragstream.settings import (
    REFERENCE,
    Settings,
    describe,
    load_settings,
    markdown,
    validate_reference,
)
from ragstream.settings.services import CollectionNames
from ragstream.settings.types import Section

ROOT = Path(__file__).parents[2]

#: Property, default, valid values, invalid values.
REFERENCE_TABLE: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("app.qdrant.dense-vector-name", "dense", ["d"], ["", " ", None, "bm25"]),
    ("app.qdrant.sparse-vector-name", "bm25", ["s"], ["", " ", None, "dense"]),
    ("app.qdrant.prefetch-limit", 14, [1, "20"], [0, -1, None, "", 1.5]),
    ("app.qdrant.rrf-k", 60, [1, 2], [0, -1, None, "x"]),
    ("app.qdrant.query-timeout", 10.0, ["10s", "500ms", 3, "PT1M"], ["0s", "-1s", None, "soon"]),
    ("app.qdrant.ensure-payload-indexes", True, [False, "true"], [None, "perhaps"]),
    ("app.qdrant.ensure-collections", False, [True, "false"], [None, ""]),
    (
        "app.qdrant.collections.books",
        "java-chat-qwen3-embedding-4b-2560-books",
        ["b"],
        ["", " ", None, "java-chat-qwen3-embedding-4b-2560-pdfs"],
    ),
    (
        "app.qdrant.collections.docs",
        "java-chat-qwen3-embedding-4b-2560-docs",
        ["d"],
        ["", None, "java-chat-qwen3-embedding-4b-2560-books"],
    ),
    (
        "app.qdrant.collections.articles",
        "java-chat-qwen3-embedding-4b-2560-articles",
        ["a"],
        ["", None, " java-chat-qwen3-embedding-4b-2560-docs "],
    ),
    (
        "app.qdrant.collections.pdfs",
        "java-chat-qwen3-embedding-4b-2560-pdfs",
        ["p"],
        ["", None, "java-chat-qwen3-embedding-4b-2560-articles"],
    ),
    ("app.rag.search-top-k", 8, [6, 100], [0, -1, None, "", 5, True]),
    ("app.rag.search-return-k", 6, [1, 8], [0, -1, 9, None]),
    ("app.rag.reranker-timeout", 8.0, ["1ms", "19.999s", 19], ["0s", "-1s", "20s", "1m", None, ""]),
    ("app.rag.search-citations", 3, [0, 10], [-1, None]),
    ("app.rag.search-mmr-lambda", 0.5, [0, 1, 0.0, "1.0"], [-0.01, 1.01, "NaN", None]),
    ("app.rag.chunk-max-tokens", 900, [151], [0, -1, 150, None]),
    ("app.rag.chunk-overlap-tokens", 150, [0, 899], [-1, 900, None]),
    ("app.embeddings.model", "qwen/qwen3-embedding-4b", ["m"], ["", " ", None]),
    ("app.embeddings.dimensions", 2560, [1, 384], [0, -1, None]),
]

PRODUCTION = {
    "RAGSTREAM_PROFILE": "production",
    "RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS": "broker:9092",
    "RAGSTREAM_REDIS__URL": "redis://:hunter2@cache:6379/0",
    "RAGSTREAM_POSTGRES__DSN": "postgresql://rag:hunter2@db/rag",
    "RAGSTREAM_QDRANT__URL": "https://qdrant:6333",
    "RAGSTREAM_EMBEDDINGS__BASE_URL": "https://models/v1",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment that says nothing."""
    for name in list(os.environ):
        if name.startswith(("RAGSTREAM_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(**given: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(**given)
    return str(caught.value).splitlines()


def at(settings: Settings, path: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in path:
        value = getattr(value, name)
    return value


class TestReference:
    def test_table_is_complete(self) -> None:
        assert [row[0] for row in REFERENCE_TABLE] == list(REFERENCE)

    @pytest.mark.parametrize(("name", "default", "valid", "invalid"), REFERENCE_TABLE)
    def test_property(
        self,
        name: str,
        default: Any,
        valid: list[Any],
        invalid: list[Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for variable, value in PRODUCTION.items():
            monkeypatch.setenv(variable, value)
        found = at(load_settings(), REFERENCE[name])
        assert (found, type(found)) == (default, type(default))
        for value in valid:
            assert validate_reference({name: value}) == [], value
        for value in invalid:
            assert len(validate_reference({name: value})) == 1, value

    def test_short_names(self) -> None:
        assert validate_reference({}) == []
        assert validate_reference({"embedding_model": " "})
        assert validate_reference({"embedding_dimensions": 0})
        assert validate_reference({"dimensions": 0})
        assert validate_reference({"search_top_k": 5, "search_return_k": 5}) == []
        assert validate_reference({"collections": {"books": "a", "docs": "a"}})
        assert validate_reference({"collections": ["a", "b", "c", "c"]})
        assert validate_reference({"collections": ["a", "b", "c", "d"]}) == []
        assert validate_reference({"collections": None})
        assert validate_reference({"no_such_thing": 1})

    def test_all_problems_at_once(self) -> None:
        found = validate_reference(
            {"search_mmr_lambda": 2, "chunk_overlap_tokens": 900, "dimensions": 0}
        )
        assert len(found) == 3


class TestPrecedence:
    def test_embedded_is_the_default(self) -> None:
        settings = load_settings()
        assert settings.profile == "embedded"
        assert settings.qdrant.ensure_collections
        assert settings.qdrant.collections.by_kind()["docs"] == "ragstream-docs"
        embeddings = settings.embeddings
        assert (embeddings.provider, embeddings.dimensions) == ("onnx", 384)
        assert not settings.llm.configured
        assert not settings.reranks_with_llm

    def test_each_source_outranks_the_next(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def top_k(**given: Any) -> int:
            return load_settings(**given).embeddings.dimensions

        assert top_k() == 384  # profile, over the default of 2560
        (folder / "ragstream.toml").write_text("[embeddings]\ndimensions = 3\n")
        assert top_k() == 3
        (folder / ".ragstream").mkdir()
        (folder / ".ragstream/dev.env").write_text("RAGSTREAM_EMBEDDINGS__DIMENSIONS=4\n")
        assert top_k() == 4
        monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__DIMENSIONS", "5")
        assert top_k() == 5
        assert top_k(embeddings={"dimensions": 6}) == 6

    def test_named_file(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "other.toml").write_text('[kafka]\nprefix = "mine"\n[routes.DOCS]\nkeep = 2\n')
        monkeypatch.setenv("RAGSTREAM_CONFIG", "other.toml")
        settings = load_settings()
        assert settings.kafka.prefix == "mine"
        assert settings.limits(settings.routes["DOCS"]) == (8, 2, 14)
        monkeypatch.setenv("RAGSTREAM_CONFIG", "missing.toml")
        assert problems() == [
            "RAGSTREAM_CONFIG: can't read missing.toml: No such file or directory"
        ]

    def test_state_folder(self, folder: Path) -> None:
        (folder / "dev.env").write_text("RAGSTREAM_QDRANT__URL=http://127.0.0.1:1\n")
        assert load_settings(state=folder).qdrant.url == "http://127.0.0.1:1"
        assert load_settings().qdrant.url is None

    def test_openai_variables_are_the_chat_models(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://chat/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_MODEL", "m")
        settings = load_settings()
        assert settings.llm.configured
        assert settings.reranks_with_llm
        assert settings.embeddings.base_url is None  # the built-in model needs none
        assert settings.embeddings.model == "all-MiniLM-L6-v2"
        monkeypatch.setenv("RAGSTREAM_LLM__MODEL", "other")
        assert load_settings().llm.model == "other"

    def test_embeddings_share_the_endpoint_unless_they_have_their_own(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://chat/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_MODEL", "m")
        monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__PROVIDER", "openai")
        shared = load_settings().embeddings
        assert shared.base_url == "http://chat/v1"
        assert shared.api_key is not None
        monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BASE_URL", "http://own/v1")
        own = load_settings().embeddings
        assert own.base_url == "http://own/v1"
        assert own.api_key is None  # the key was given for another endpoint


class TestTables:
    def test_built_in_routes(self) -> None:
        settings = load_settings()
        routes = settings.routes
        assert list(routes) == ["DOCS", "NEWS", "ACCOUNT"]
        assert settings.limits(routes["DOCS"]) == (8, 6, 14)
        assert settings.limits(routes["NEWS"]) == (20, 5, 20)
        assert settings.collections_of(routes["NEWS"]) == ("ragstream-news",)
        assert len(settings.collections_of(routes["DOCS"])) == 4
        assert routes["ACCOUNT"].private

    def test_one_property_of_one_route(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAGSTREAM_ROUTES__NEWS__KEEP", "7")
        monkeypatch.setenv("RAGSTREAM_ROUTES__ACCOUNT__ENABLED", "false")
        settings = load_settings()
        assert settings.limits(settings.routes["NEWS"]) == (20, 7, 20)
        assert [route.name for route in settings.enabled_routes()] == ["DOCS", "NEWS"]

    def test_routes_as_a_list(self) -> None:
        chat = {"name": "chat", "description": "Small talk"}
        settings = load_settings(routes=[chat], default_route="CHAT")
        assert list(settings.routes) == ["DOCS", "NEWS", "ACCOUNT", "CHAT"]
        assert settings.collections_of(settings.routes["CHAT"]) == ()

    def test_built_in_products_are_those_of_version_detection(self) -> None:
        assert load_settings().versioned_products() == (JAVA, KAFKA)

    def test_own_product(self) -> None:
        pattern = r"\bscala[ -](?P<release>[0-9.]+)"
        given = {"scala": {"pattern": pattern, "boost": "Scala {v}"}}
        product = load_settings(products=given).versioned_products()[-1]
        assert requested_releases("from Scala 2.13 on", product) == ("2.13",)
        assert boost("why?", product, ("2.13",)) == "Scala 2.13: why?"

    def test_prompt_budgets(self) -> None:
        rag = load_settings().rag
        assert rag.budget(None) == (100_000, None, None)
        assert rag.budget("openai/gpt-5.4") == (100_000, 3, 600)
        assert rag.budget("llama") == (100_000, None, None)


class TestProblems:
    def test_all_at_once_and_by_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = {
            "RAGSTREAM_RAG__SEARCH_TOP_K": "5",
            "RAGSTREAM_RAG__SEARCH_MMR_LAMBDA": "1.5",
            "RAGSTREAM_RAG__CHUNK_OVERLAP_TOKENS": "900",
            "RAGSTREAM_RAG__SEARCH_TOPK": "3",
            "RAGSTREAM_RAGG__SEARCH_TOP_K": "3",
            "RAGSTREAM_QDRANT__COLLECTIONS__NEWS": "ragstream-docs",
            "RAGSTREAM_ROUTES__NEWS__KEEP": "21",
            "RAGSTREAM_ROUTES__NEWS__PATTERNS": '["("]',
            "RAGSTREAM_ROUTES__NEWS__COLLECTIONS": "news, olds",
            "RAGSTREAM_EMBEDDINGS__PROVIDER": "openai",
            "RAGSTREAM_DEFAULT_ROUTE": "NOWHERE",
            "RAGSTREAM_CACHE": "/not/a/setting",
        }
        for variable, value in given.items():
            monkeypatch.setenv(variable, value)
        found = dict(line.split(": ", 1) for line in problems())
        assert found == {
            "RAGSTREAM_RAG__SEARCH_RETURN_K": "must not be more than search_top_k (got 6)",
            "RAGSTREAM_RAG__SEARCH_MMR_LAMBDA": "should be less than or equal to 1 (got '1.5')",
            "RAGSTREAM_RAG__CHUNK_OVERLAP_TOKENS": (
                "must be less than chunk_max_tokens (got '900')"
            ),
            "RAGSTREAM_RAG__SEARCH_TOPK": (
                "no such setting; did you mean RAGSTREAM_RAG__SEARCH_TOP_K?"
            ),
            "RAGSTREAM_RAGG__SEARCH_TOP_K": (
                "no such setting; did you mean RAGSTREAM_RAG__SEARCH_TOP_K?"
            ),
            "RAGSTREAM_QDRANT__COLLECTIONS__NEWS": (
                "must differ from the collection of docs (got 'ragstream-docs')"
            ),
            "RAGSTREAM_ROUTES__NEWS__KEEP": "must not be more than candidates (got '21')",
            "RAGSTREAM_ROUTES__NEWS__PATTERNS": (
                "is no regular expression: missing ), unterminated subpattern at position 0"
                " (got list)"
            ),
            "RAGSTREAM_ROUTES__NEWS__COLLECTIONS[1]": (
                "should be 'books', 'docs', 'articles', 'pdfs' or 'news' (got 'olds')"
            ),
            "RAGSTREAM_EMBEDDINGS__BASE_URL": (
                "is required for provider openai; OPENAI_BASE_URL would do"
            ),
            "RAGSTREAM_DEFAULT_ROUTE": (
                "no such route (there are ACCOUNT, DOCS, NEWS) (got 'NOWHERE')"
            ),
        }

    def test_production_needs_its_services(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAGSTREAM_PROFILE", "production")
        missing = {line.split(":")[0] for line in problems()}
        assert missing == PRODUCTION.keys() - {"RAGSTREAM_PROFILE"}

    def test_unknown_keys_of_the_file(self, folder: Path) -> None:
        (folder / "ragstream.toml").write_text("[rag]\nsearch_topk = 3\n")
        assert problems() == [
            "RAGSTREAM_RAG__SEARCH_TOPK: no such setting; did you mean RAGSTREAM_RAG__SEARCH_TOP_K?"
        ]

    def test_only_near_names_are_proposed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAGSTREAM_FOO", "1")
        monkeypatch.setenv("RAGSTREAM_PROFIL", "embedded")
        assert problems() == [
            "RAGSTREAM_FOO: no such setting",
            "RAGSTREAM_PROFIL: no such setting; did you mean RAGSTREAM_PROFILE?",
        ]

    def test_broken_file(self, folder: Path) -> None:
        (folder / "ragstream.toml").write_text("[rag\n")
        assert problems()[0].startswith("ragstream.toml is not TOML")

    @pytest.mark.parametrize(
        ("section", "name", "value"),
        [
            ("POSTGRES", "DSN", "mysql://rag:hunter2@db"),
            ("REDIS", "URL", "hunter2"),
            ("EMBEDDINGS", "QUERY_HEADERS", '{"Authorization": "hunter2"'),
        ],
    )
    def test_secrets_are_not_shown(
        self, section: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        variable = f"RAGSTREAM_{section}__{name}"
        monkeypatch.setenv(variable, value)
        (told,) = problems()
        assert told.startswith(f"{variable}: ")
        assert "hunter2" not in told
        with pytest.raises(ValidationError) as caught:
            Settings()
        assert "hunter2" not in str(caught.value)

    def test_secrets_within_a_section_are_not_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAGSTREAM_POSTGRES", '{"dsn": "postgresql://rag:hunter2@db"')
        assert "hunter2" not in "".join(problems())

    def test_settings_hide_secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable, value in PRODUCTION.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__QUERY_HEADERS", '{"Authorization": "hunter2"}')
        settings = load_settings()
        assert "hunter2" not in repr(settings)
        assert "hunter2" not in settings.model_dump_json()

    def test_frozen(self) -> None:
        with pytest.raises(ValidationError):
            load_settings().rag.search_top_k = 9  # type: ignore[misc]


class TestDescription:
    def test_every_variable_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the page lists can be set, each variable to its own default."""
        for variable, value in PRODUCTION.items():
            monkeypatch.setenv(variable, value)
        before = load_settings()
        for row in describe():
            plain = row.default and row.default != "required" and ":" not in row.default
            if plain and "<NAME>" not in row.name and row.name not in PRODUCTION:
                monkeypatch.setenv(row.name, row.default)
        assert load_settings() == before

    def test_everything_is_described(self) -> None:
        assert [row.name for row in describe() if not row.description] == []

    def test_page_is_current(self) -> None:
        assert (ROOT / "docs/settings.md").read_text("utf-8") == markdown()


#: In the reference's table, and used by diversification only, which no stage does yet.
UNREAD = {"search_mmr_lambda"}


def test_every_setting_is_read_somewhere() -> None:
    """A setting that changes nothing is worse than none."""
    read = {
        node.attr
        for path in (ROOT / "src/ragstream").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }
    by_table = set(CollectionNames.model_fields)  # CollectionNames.by_kind
    named = {name for section in _sections(Section) for name in section.model_fields}
    assert named - read - by_table == UNREAD


def _sections(base: type[Section]) -> Iterator[type[Section]]:
    for section in base.__subclasses__():
        yield section
        yield from _sections(section)


@pytest.mark.parametrize(
    "servers", ["a:9092", "a:1, b.example:65535", "[::1]:9092", "10.0.0.1:9092,10.0.0.2:9092"]
)
def test_addresses_of_brokers(servers: str) -> None:
    assert load_settings(kafka={"bootstrap_servers": servers}).kafka.bootstrap_servers == servers


@pytest.mark.parametrize(
    "servers",
    ["a", "a:abc", "a:0", "a:65536", "a:9092,", "a:1 b:2", "kafka://a:9092", "u@a:1", "::1:9092"],
)
def test_addresses_that_no_broker_has(servers: str) -> None:
    with pytest.raises(ConfigurationError, match="BOOTSTRAP_SERVERS: must be host:port"):
        load_settings(kafka={"bootstrap_servers": servers})
