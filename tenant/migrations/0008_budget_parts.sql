-- Since which revision a budget stands without having been lifted: what counts it begins anew with another one.
ALTER TABLE budgets ADD COLUMN since INTEGER NOT NULL DEFAULT 1;
-- What was used of a budget's period before the first part of it was handed out. Who hands out a part changes its row first, and so
-- is the only one.
CREATE TABLE budget_periods (
    level TEXT NOT NULL,
    subject TEXT NOT NULL,
    model TEXT NOT NULL,
    unit TEXT NOT NULL,
    period TEXT NOT NULL,
    starts INTEGER NOT NULL, -- the first day of the period, from 1970-01-01 UTC
    epoch INTEGER NOT NULL, -- of which count the base is; 0 while there is none
    base INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    PRIMARY KEY (level, subject, model, unit, period, starts)
) STRICT;
-- What each gateway holds of a budget in a period: base and parts of one epoch are at most the budget.
CREATE TABLE budget_parts (
    level TEXT NOT NULL,
    subject TEXT NOT NULL,
    model TEXT NOT NULL,
    unit TEXT NOT NULL,
    period TEXT NOT NULL,
    starts INTEGER NOT NULL,
    gateway TEXT NOT NULL, -- the name of its journal, as in usage_batches
    epoch INTEGER NOT NULL,
    version INTEGER NOT NULL, -- one more with each change
    amount INTEGER NOT NULL CHECK (amount >= 0), -- handed out, what is spent of it included
    spent INTEGER NOT NULL, -- of that, as the gateway told last
    used INTEGER NOT NULL, -- the same, with what it had reserved
    wanted INTEGER, -- how large its part would have to be for a request that waits
    wanted_ms INTEGER, -- since when
    seen_ms INTEGER NOT NULL, -- when it told
    PRIMARY KEY (level, subject, model, unit, period, starts, gateway)
) STRICT;
CREATE INDEX budget_parts_of_a_gateway ON budget_parts (gateway);
CREATE INDEX budget_parts_wanted ON budget_parts (wanted_ms);
