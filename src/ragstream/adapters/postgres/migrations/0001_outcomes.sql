-- The outcome ledger: one row per terminal outcome, never updated.
CREATE TABLE outcomes (
    tenant text NOT NULL,
    query_id text NOT NULL,
    generation bigint NOT NULL,
    fingerprint text NOT NULL,      -- SHA-256 of the request, hexadecimal
    topic text NOT NULL,
    partition integer,
    record_key bytea,
    value bytea NOT NULL,           -- the record, byte for byte
    header_names text[] NOT NULL,   -- parallel to header_values, in order, names may repeat
    header_values bytea[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, query_id, generation)
);

CREATE INDEX outcomes_created_at ON outcomes (created_at);
