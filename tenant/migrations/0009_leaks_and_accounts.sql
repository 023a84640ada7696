-- Why a change was made, where it says so: 'leaked'. And where a leaked key was found: host and path, never a query.
ALTER TABLE events ADD COLUMN reason TEXT;
ALTER TABLE events ADD COLUMN found_at TEXT;
