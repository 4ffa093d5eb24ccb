"""Settings: environment, file and profiles in one typed, checked whole. Durations are seconds."""

from ragstream.settings.answering import (
    EmbeddingsSettings,
    LlmSettings,
    ModelBudget,
    ProductSettings,
    PromptBudget,
    RagSettings,
    RerankSettings,
    RouteLimits,
    RouteSettings,
    SparseSettings,
)
from ragstream.settings.describe import Variable, describe, markdown
from ragstream.settings.loading import load_settings
from ragstream.settings.model import Settings
from ragstream.settings.reference import REFERENCE, validate_reference
from ragstream.settings.services import (
    CacheSettings,
    CollectionNames,
    ConcurrencySettings,
    DeliverySettings,
    KafkaSettings,
    PostgresSettings,
    QdrantSettings,
    RedisSettings,
    WindowSettings,
    WorkerSettings,
)

__all__ = [
    "REFERENCE",
    "CacheSettings",
    "CollectionNames",
    "ConcurrencySettings",
    "DeliverySettings",
    "EmbeddingsSettings",
    "KafkaSettings",
    "LlmSettings",
    "ModelBudget",
    "PostgresSettings",
    "ProductSettings",
    "PromptBudget",
    "QdrantSettings",
    "RagSettings",
    "RedisSettings",
    "RerankSettings",
    "RouteLimits",
    "RouteSettings",
    "Settings",
    "SparseSettings",
    "Variable",
    "WindowSettings",
    "WorkerSettings",
    "describe",
    "load_settings",
    "markdown",
    "validate_reference",
]
