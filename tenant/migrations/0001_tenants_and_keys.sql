-- A tag once drawn is never drawn again, even when its tenant is gone: pages, logs and receipts name tenants by it.
CREATE TABLE tags (
    tag INTEGER PRIMARY KEY -- 64 random bits, read as a signed number
) STRICT;

CREATE TABLE tenants (
    id BLOB PRIMARY KEY CHECK (length(id) = 16), -- UUID v7
    name TEXT NOT NULL UNIQUE,
    tag INTEGER NOT NULL UNIQUE REFERENCES tags (tag),
    created_ms INTEGER NOT NULL CHECK (created_ms >= 0)
) STRICT;

CREATE TABLE keys (
    id TEXT PRIMARY KEY CHECK (length(id) = 12),
    tenant BLOB NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    pepper_version INTEGER NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32), -- HMAC-SHA-256 of id and secret
    window_cap INTEGER CHECK (window_cap > 0), -- tokens; NULL inherits
    concurrency INTEGER CHECK (concurrency > 0), -- requests; NULL inherits
    expires_ms INTEGER CHECK (expires_ms >= 0), -- NULL never
    created_ms INTEGER NOT NULL CHECK (created_ms >= 0),
    revoked_ms INTEGER CHECK (revoked_ms >= 0) -- NULL while it works
) STRICT;

CREATE INDEX keys_of_a_tenant ON keys (tenant);

-- Recognises the pepper that digests were made with, and tells nothing of it.
CREATE TABLE peppers (
    version INTEGER PRIMARY KEY,
    fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32)
) STRICT;

-- Rises with each change, whoever makes it: a follower compares it and reads the rest only when it moved.
CREATE TABLE revision (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    value INTEGER NOT NULL
) STRICT;

INSERT INTO revision (one, value) VALUES (1, 1);

CREATE TRIGGER tenants_insert AFTER INSERT ON tenants BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER tenants_update AFTER UPDATE ON tenants BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER tenants_delete AFTER DELETE ON tenants BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER keys_insert AFTER INSERT ON keys BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER keys_update AFTER UPDATE ON keys BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER keys_delete AFTER DELETE ON keys BEGIN UPDATE revision SET value = value + 1; END;
