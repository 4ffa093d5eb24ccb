"""How to reach the cluster, from the settings. Apart from the rest of the composition, so that
commands which only talk to Kafka start quickly."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from ragstream.adapters import postgres
from ragstream.adapters.kafka import KafkaConnection
from ragstream.domain.errors import ConfigurationError
from ragstream.settings import Settings

__all__ = ["hint", "kafka_connection", "open_database"]

DEVELOPMENT = Path(".ragstream/dev.env")


def hint() -> str:
    """What to look at when a component of the stack is away: whether there is one here."""
    if DEVELOPMENT.exists():
        return "is `ragstream dev` running?"
    return f"there is no {DEVELOPMENT} in this folder, which `ragstream dev` writes"


def kafka_connection(settings: Settings) -> KafkaConnection:
    """How to reach the cluster. Raises ``ConfigurationError`` where no address is set."""
    kafka = settings.kafka
    if kafka.bootstrap_servers is None:
        why = (
            f"and {DEVELOPMENT} names no Kafka: `ragstream dev` found no Java and no Docker for one"
            if DEVELOPMENT.exists()
            else f"and there is no {DEVELOPMENT} in this folder: start `ragstream dev` here"
        )
        raise ConfigurationError(f"RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS is not set, {why}, or set it")
    password = kafka.sasl_password
    return KafkaConnection(
        kafka.bootstrap_servers,
        security_protocol=kafka.security_protocol,
        sasl_mechanism=kafka.sasl_mechanism,
        sasl_username=kafka.sasl_username,
        sasl_password=password.get_secret_value() if password else None,
        ssl_cafile=kafka.ssl_cafile,
        client_id=kafka.client_id,
        request_timeout=kafka.request_timeout,
    )


def open_database(settings: Settings, stack: AsyncExitStack) -> postgres.Database:
    """The pool of the settings; raises ``ConfigurationError`` when they name no server."""
    if settings.postgres.dsn is None:
        raise ConfigurationError("RAGSTREAM_POSTGRES__DSN is not set")
    database = postgres.Database(
        settings.postgres.dsn.get_secret_value(),
        schema=settings.postgres.schema_name,
        connect_timeout=settings.postgres.connect_timeout,
        command_timeout=settings.postgres.command_timeout,
        max_connections=settings.postgres.max_connections,
    )
    stack.push_async_callback(database.aclose)
    return database
