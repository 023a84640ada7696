-- What was changed, by whom; written in the transaction of the change itself. No secret, digest or pepper is ever in it.
CREATE TABLE events (
    revision INTEGER NOT NULL,
    part INTEGER NOT NULL CHECK (part > 0), -- counts the events of one change from 1
    at_ms INTEGER NOT NULL CHECK (at_ms >= 0),
    actor TEXT NOT NULL, -- 'command_line', 'system', or a key's id
    action TEXT NOT NULL,
    subject TEXT NOT NULL, -- the id of what was changed, as listings show it
    tenant BLOB, -- NULL for what is nobody's
    before TEXT, -- JSON; NULL for what was not there
    after TEXT, -- JSON
    PRIMARY KEY (revision, part)
) STRICT;
CREATE INDEX events_of_a_tenant ON events (tenant, revision, part);

-- Requests that were made under a name of their own, so that they are not done twice.
CREATE TABLE answers (
    account TEXT NOT NULL, -- the tenant's id, or 'installation'
    actor TEXT NOT NULL, -- the id of the key that asked
    name TEXT NOT NULL,
    request BLOB NOT NULL CHECK (length(request) = 32), -- SHA-256 of what was asked
    at_ms INTEGER NOT NULL CHECK (at_ms >= 0),
    subject TEXT, -- the id of what was made
    status INTEGER, -- NULL where the answer is not kept, since it held a secret or the gateway ended before it was
    body TEXT,
    PRIMARY KEY (account, actor, name)
) STRICT;
CREATE INDEX answers_by_age ON answers (at_ms);

CREATE INDEX api_keys_in_pages ON api_keys (tenant, id);
CREATE INDEX projects_in_pages ON projects (tenant, id);
