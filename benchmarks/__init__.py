"""Benchmarks: what a record costs here and elsewhere, on one broker and in one run.

Absolute figures depend on the machine and on what else it does; peers are therefore run by turns,
and the results are ratios to plain aiokafka. Nothing here is imported by the package.
"""
