"""The chaos proof: real processes are killed, stopped and starved while queries pass through real
Kafka, and afterwards every accepted query must have exactly one outcome.

``python -m tests.chaos --list`` names the scenarios; each says its seed and can be run alone.
"""
