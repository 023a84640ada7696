-- Why a change was made, where it says so: 'leaked'. And where a leaked key was found: host and path, never a query.
ALTER TABLE events ADD COLUMN reason TEXT;
ALTER TABLE events ADD COLUMN found_at TEXT;
-- How many events each tenant has, so that the oldest of whoever has most are forgotten first.
CREATE TABLE event_accounts (
    account BLOB PRIMARY KEY NOT NULL CHECK (length(account) IN (0, 16)), -- the tenant; empty for what is nobody's
    held INTEGER NOT NULL CHECK (held >= 0)
) STRICT;
CREATE INDEX event_accounts_by_size ON event_accounts (held, account);
INSERT INTO event_accounts (account, held)
    SELECT tenant, count(*) FROM events WHERE tenant IS NOT NULL GROUP BY tenant;
INSERT INTO event_accounts (account, held)
    SELECT CAST('' AS BLOB), count(*) FROM events WHERE tenant IS NULL;
CREATE TABLE events_held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO events_held (one, value) SELECT 1, count(*) FROM events;
