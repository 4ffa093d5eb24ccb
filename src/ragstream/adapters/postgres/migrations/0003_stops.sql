-- Stages that were stopped because they failed too often, until an operator clears them.
CREATE TABLE stops (
    stage text PRIMARY KEY,
    reason text NOT NULL,
    stopped_at timestamptz NOT NULL DEFAULT now()
);
