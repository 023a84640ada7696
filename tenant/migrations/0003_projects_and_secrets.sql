-- From here on each change takes the next revision in its own transaction and writes it into the rows it touches, so that a
-- follower reads those alone.
DROP TRIGGER tenants_insert;
DROP TRIGGER tenants_update;
DROP TRIGGER tenants_delete;
DROP TRIGGER keys_insert;
DROP TRIGGER keys_update;
DROP TRIGGER keys_delete;
DROP TRIGGER shares_insert;
DROP TRIGGER shares_update;
DROP TRIGGER shares_delete;

ALTER TABLE tenants ADD COLUMN suspended_ms INTEGER CHECK (suspended_ms >= 0); -- NULL while its keys work
ALTER TABLE tenants ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
CREATE INDEX tenants_by_revision ON tenants (revision);

CREATE TABLE projects (
    id BLOB PRIMARY KEY CHECK (length(id) = 16), -- UUID v7
    tenant BLOB NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    created_ms INTEGER NOT NULL CHECK (created_ms >= 0),
    revision INTEGER NOT NULL,
    UNIQUE (tenant, name)
) STRICT;
-- A tenant of before has one project, under the tenant's own id.
INSERT INTO projects (id, tenant, name, created_ms, revision) SELECT id, id, 'default', created_ms, 1 FROM tenants;

-- Keys as they were, with what they are for. Those of operators have no tenant; those of people and auditors no project.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY CHECK (length(id) = 12),
    kind TEXT NOT NULL CHECK (kind IN ('live', 'test', 'admin', 'audit')),
    tenant BLOB REFERENCES tenants (id),
    project BLOB REFERENCES projects (id),
    role TEXT CHECK (role IN ('owner', 'admin', 'member', 'auditor')),
    name TEXT NOT NULL,
    scopes TEXT NOT NULL, -- JSON
    window_cap INTEGER CHECK (window_cap > 0), -- tokens; NULL inherits
    concurrency INTEGER CHECK (concurrency > 0), -- requests; NULL inherits
    expires_ms INTEGER CHECK (expires_ms >= 0), -- NULL never
    created_ms INTEGER NOT NULL CHECK (created_ms >= 0),
    revoked_ms INTEGER CHECK (revoked_ms >= 0), -- NULL while it works
    revision INTEGER NOT NULL,
    CHECK ((kind IN ('live', 'test')) = (project IS NOT NULL)),
    CHECK (kind NOT IN ('live', 'test', 'audit') OR tenant IS NOT NULL),
    CHECK ((kind = 'admin') = (role IS NOT NULL))
) STRICT;
CREATE INDEX api_keys_of_a_tenant ON api_keys (tenant);
CREATE INDEX api_keys_by_revision ON api_keys (revision);

-- What is known of a key's secrets: two at most while it is rotated.
CREATE TABLE secrets (
    key TEXT NOT NULL REFERENCES api_keys (id),
    serial INTEGER NOT NULL CHECK (serial > 0),
    pepper_version INTEGER NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32), -- HMAC-SHA-256 of id and secret
    created_ms INTEGER NOT NULL CHECK (created_ms >= 0),
    ends_ms INTEGER CHECK (ends_ms >= 0), -- NULL with its key
    used_ms INTEGER CHECK (used_ms >= 0), -- NULL not yet
    PRIMARY KEY (key, serial)
) STRICT;

INSERT INTO api_keys (id, kind, tenant, project, role, name, scopes, window_cap, concurrency, expires_ms, created_ms, revoked_ms, revision)
    SELECT id, 'live', tenant, tenant, NULL, name, '{}', window_cap, concurrency, expires_ms, created_ms, revoked_ms, 1 FROM keys;
INSERT INTO secrets (key, serial, pepper_version, digest, created_ms, ends_ms, used_ms)
    SELECT id, 1, pepper_version, digest, created_ms, NULL, NULL FROM keys;
DROP TABLE keys;
UPDATE revision SET value = value + 1;
