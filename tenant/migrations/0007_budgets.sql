-- How much a key, a project or a tenant may use in a period. NULL as the amount: the budget was lifted.
CREATE TABLE budgets (
    level TEXT NOT NULL CHECK (level IN ('key', 'project', 'tenant')),
    subject TEXT NOT NULL, -- the id of the key, the project or the tenant, as listings show it
    model TEXT NOT NULL, -- its name; '' for all models together
    unit TEXT NOT NULL CHECK (unit IN ('tokens', 'money')),
    period TEXT NOT NULL CHECK (period IN ('day', 'month', 'total')),
    kind TEXT NOT NULL CHECK (kind IN ('hard', 'soft')),
    tenant BLOB NOT NULL REFERENCES tenants (id),
    amount INTEGER CHECK (amount >= 0), -- tokens, or micro-units of money
    thresholds TEXT NOT NULL, -- percents, rising: '50,80'
    revision INTEGER NOT NULL,
    PRIMARY KEY (level, subject, model, unit, period, kind)
) STRICT;
CREATE INDEX budgets_by_revision ON budgets (revision);
CREATE INDEX budgets_of_a_tenant ON budgets (tenant);
-- Micro-units of money for a million tokens of each kind. NULL, all three: the model has no price any more.
CREATE TABLE prices (
    model TEXT PRIMARY KEY NOT NULL,
    prompt INTEGER CHECK (prompt >= 0),
    cached INTEGER CHECK (cached >= 0),
    completion INTEGER CHECK (completion >= 0),
    revision INTEGER NOT NULL
) STRICT;
CREATE INDEX prices_by_revision ON prices (revision);
-- What each key used of each model in each hour.
CREATE TABLE usage (
    hour INTEGER NOT NULL, -- whole hours from 1970-01-01 UTC
    tenant TEXT NOT NULL,
    project TEXT NOT NULL,
    subject TEXT NOT NULL, -- the key's id
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt INTEGER NOT NULL,
    cached INTEGER NOT NULL,
    completion INTEGER NOT NULL,
    cost_micro INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    PRIMARY KEY (tenant, hour, project, subject, model)
) STRICT;
CREATE INDEX usage_by_hour ON usage (hour);
CREATE INDEX usage_of_a_project ON usage (project, hour);
CREATE INDEX usage_of_a_key ON usage (subject, hour);
-- The last batch of usage that was taken over from each gateway's journal.
CREATE TABLE usage_batches (
    journal TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL,
    confirmed_ms INTEGER NOT NULL
) STRICT;
