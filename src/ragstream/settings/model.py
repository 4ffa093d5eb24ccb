"""The settings as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ragstream.retrieval.versions import Product
from ragstream.settings.answering import (
    EmbeddingsSettings,
    LlmSettings,
    ProductSettings,
    RagSettings,
    RerankSettings,
    RouteLimits,
    RouteSettings,
    SparseSettings,
)
from ragstream.settings.profiles import REQUIRED
from ragstream.settings.services import (
    CacheSettings,
    DeliverySettings,
    KafkaSettings,
    PostgresSettings,
    QdrantSettings,
    RedisSettings,
    WorkerSettings,
)
from ragstream.settings.sources import (
    PREFIX,
    DevelopmentSource,
    EnvironmentSource,
    FileSource,
    Normalised,
    OpenAISource,
    ProfileSource,
    SharedEndpointSource,
)

__all__ = ["Settings"]


class Settings(BaseSettings):
    """All settings. Durations are seconds.

    Highest first: arguments, ``RAGSTREAM_`` variables, ``OPENAI_`` variables (chat model),
    ``.ragstream/dev.env``, the TOML file, the profile, defaults. Prefer ``load_settings``, which
    reports every problem by its variable.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_file=".ragstream/dev.env",
        dotenv_filtering="only_existing",
    )

    profile: Literal["embedded", "production"] = Field(
        "embedded", description="embedded: what `ragstream dev` starts; production: your own"
    )
    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    redis: RedisSettings = Field(default_factory=RedisSettings)
    postgres: PostgresSettings = Field(default_factory=PostgresSettings)
    qdrant: QdrantSettings = Field(default_factory=QdrantSettings)
    rag: RagSettings = Field(default_factory=RagSettings)
    embeddings: EmbeddingsSettings = Field(default_factory=EmbeddingsSettings)
    llm: LlmSettings = Field(default_factory=LlmSettings)
    rerank: RerankSettings = Field(default_factory=RerankSettings)
    sparse: SparseSettings = Field(default_factory=SparseSettings)
    routes: dict[str, RouteSettings] = Field({}, description="Routes by name")
    default_route: str = Field("DOCS", description="Route of queries that nothing else decides")
    products: dict[str, ProductSettings] = Field({}, description="Versioned products by name")
    delivery: DeliverySettings = Field(default_factory=DeliverySettings)
    cache: CacheSettings = Field(default_factory=CacheSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        env_file = getattr(dotenv_settings, "env_file", None)
        return (
            Normalised(settings_cls, init_settings),
            Normalised(settings_cls, EnvironmentSource(settings_cls)),
            OpenAISource(settings_cls),
            Normalised(settings_cls, DevelopmentSource(settings_cls, env_file=env_file)),
            Normalised(settings_cls, FileSource(settings_cls)),
            ProfileSource(settings_cls),
            SharedEndpointSource(settings_cls),
        )

    @field_validator("routes", "products", mode="before")
    @classmethod
    def _named(cls, entries: Any) -> Any:
        """Each entry of a table knows its name."""
        if not isinstance(entries, Mapping):
            return entries
        return {
            name: {**entry, "name": name} if isinstance(entry, Mapping) else entry
            for name, entry in entries.items()
        }

    @field_validator("routes")
    @classmethod
    def _keep_fits(
        cls, routes: dict[str, RouteSettings], info: ValidationInfo
    ) -> dict[str, RouteSettings]:
        rag: RagSettings | None = info.data.get("rag")
        if rag is None:
            return routes
        problems = []
        for name, route in routes.items():
            candidates = route.candidates or rag.search_top_k
            if (route.keep or rag.search_return_k) > candidates:
                reason = f"must not be more than its candidates ({candidates})"
                problems.append(_problem((name, "keep"), reason, route.keep))
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return routes

    @field_validator("default_route")
    @classmethod
    def _enabled(cls, name: str, info: ValidationInfo) -> str:
        route: RouteSettings | None = info.data.get("routes", {}).get(name)
        if route is not None and not route.enabled:
            raise ValueError("the route is not enabled")
        return name

    @model_validator(mode="wrap")
    @classmethod
    def _complete(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Reports what is missing beside what is wrong."""
        problems = list(_gaps(values)) if isinstance(values, Mapping) else []
        try:
            settings = handler(values)
        except ValidationError as error:
            problems = [*map(_repeated, error.errors(include_url=False)), *problems]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return settings

    def collections_of(self, route: RouteSettings) -> tuple[str, ...]:
        """Names of the collections that a route searches."""
        names = self.qdrant.collections.by_kind()
        return tuple(names[kind] for kind in route.collections)

    def limits(self, route: RouteSettings) -> RouteLimits:
        """How many documents a route looks at and keeps."""
        return RouteLimits(
            candidates=route.candidates or self.rag.search_top_k,
            keep=route.keep or self.rag.search_return_k,
            prefetch=route.prefetch or self.qdrant.prefetch_limit,
        )

    def enabled_routes(self) -> tuple[RouteSettings, ...]:
        return tuple(route for route in self.routes.values() if route.enabled)

    def versioned_products(self) -> tuple[Product, ...]:
        """The products whose releases are looked for in questions."""
        return tuple(product.build() for product in self.products.values() if product.enabled)

    @property
    def reranks_with_llm(self) -> bool:
        provider = self.rerank.provider
        return provider == "llm" or (provider == "auto" and self.llm.configured)


def _gaps(values: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    """What is needed and not there, told from what was given: that is known even where the
    sections are wrong."""
    profile = values.get("profile", "embedded")
    for path in REQUIRED.get(profile, ()) if isinstance(profile, str) else ():
        if not _given(values, *path):
            yield _problem(path, f"is required in the {profile} profile")
    if _dig(values, "embeddings", "provider") in (None, "openai") and not _given(
        values, "embeddings", "base_url"
    ):
        reason = "is required for provider openai; OPENAI_BASE_URL would do"
        yield _problem(("embeddings", "base_url"), reason)
    default, routes = values.get("default_route", "DOCS"), values.get("routes")
    if isinstance(routes, Mapping) and default not in routes:
        reason = f"no such route (there are {', '.join(sorted(routes))})"
        yield _problem(("default_route",), reason, default)
    if _given(values, "llm", "model") and not _given(values, "llm", "base_url"):
        yield _problem(("llm", "base_url"), "is required with a model; OPENAI_BASE_URL would do")
    if _dig(values, "rerank", "provider") == "llm" and not _given(values, "llm", "base_url"):
        yield _problem(
            ("rerank", "provider"), "needs a chat model: set RAGSTREAM_LLM__BASE_URL", "llm"
        )


def _dig(values: Any, *path: str) -> Any:
    for name in path:
        if isinstance(values, BaseModel):
            values = getattr(values, name, None)
        else:
            values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _given(values: Any, *path: str) -> bool:
    found = _dig(values, *path)
    text = found.get_secret_value() if isinstance(found, SecretStr) else found
    return bool(text.strip()) if isinstance(text, str) else text is not None


def _problem(loc: tuple[str, ...], reason: str, value: Any = None) -> InitErrorDetails:
    message = PydanticCustomError("value_error", "{reason}", {"reason": reason})
    return InitErrorDetails(type=message, loc=loc, input=value)


def _repeated(error: Any) -> InitErrorDetails:
    message = PydanticCustomError(error["type"], "{reason}", {"reason": error["msg"]})
    return InitErrorDetails(type=message, loc=error["loc"], input=error["input"])
