-- The latest generation of each answer, whatever its status.
CREATE TABLE answers (
    tenant text NOT NULL,
    query_id text NOT NULL,
    generation bigint NOT NULL,
    user_id text,
    conversation_id text,
    question text NOT NULL,
    status text NOT NULL,           -- answered, no_context, failed, cancelled
    text text NOT NULL,
    route text,
    model text,
    prompt_version text,
    quality text NOT NULL,
    failure_code text,
    accepted_at timestamptz NOT NULL,
    completed_at timestamptz NOT NULL,
    answer jsonb NOT NULL,          -- the whole event
    saved_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, query_id)
);

CREATE INDEX answers_conversation ON answers (tenant, conversation_id, accepted_at DESC)
    WHERE conversation_id IS NOT NULL;
CREATE INDEX answers_accepted_at ON answers (tenant, accepted_at);

-- Which chunks an answer refers to.
CREATE TABLE citations (
    tenant text NOT NULL,
    query_id text NOT NULL,
    number integer NOT NULL,
    document_id text NOT NULL,
    chunk_id text NOT NULL,
    title text,
    url text,
    score double precision NOT NULL,
    PRIMARY KEY (tenant, query_id, number),
    FOREIGN KEY (tenant, query_id) REFERENCES answers ON DELETE CASCADE
);

CREATE INDEX citations_document ON citations (tenant, document_id);
