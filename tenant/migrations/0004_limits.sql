-- What a key, a project or a tenant may take in a minute, at once, and in one request; NULL sets no limit.
CREATE TABLE limits (
    level TEXT NOT NULL CHECK (level IN ('key', 'project', 'tenant')),
    subject TEXT NOT NULL, -- the id of the key, the project or the tenant, as listings show it
    model TEXT NOT NULL, -- its name; '' for all models together
    tenant BLOB NOT NULL REFERENCES tenants (id),
    requests_per_minute INTEGER CHECK (requests_per_minute > 0),
    tokens_per_minute INTEGER CHECK (tokens_per_minute > 0),
    at_once INTEGER CHECK (at_once > 0),
    prompt_tokens INTEGER CHECK (prompt_tokens > 0),
    output_tokens INTEGER CHECK (output_tokens > 0),
    revision INTEGER NOT NULL,
    PRIMARY KEY (level, subject, model)
) STRICT;
CREATE INDEX limits_by_revision ON limits (revision);
CREATE INDEX limits_of_a_tenant ON limits (tenant);
