-- Which record was replayed as which generation of its query: a replay happens once.
CREATE TABLE replays (
    replay_id text PRIMARY KEY,     -- topic/partition/offset of the record
    tenant text NOT NULL,
    query_id text NOT NULL,
    generation bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz         -- when the broker had confirmed it
);

CREATE INDEX replays_query ON replays (tenant, query_id);
