"""From a record that was read to an offset that may be committed.

``dispatcher``  runs records in key order and tracks what is done
``queries``     what happens to a query at a stage: ledger, deadline, retries, outcome
``effects``     what happens to a record whose stage has an effect (ingest, history)
``retry``       backoff, and the gate that holds a stage while a dependency is down
``deadletter``  what can't be processed
"""
