"""The contract of the topics: declaration, JSON Schemas, AsyncAPI, examples."""

from ragstream.contract.asyncapi import asyncapi
from ragstream.contract.files import check, freeze, write
from ragstream.contract.schemas import breaking_changes, schema, schemas

__all__ = ["asyncapi", "breaking_changes", "check", "freeze", "schema", "schemas", "write"]
