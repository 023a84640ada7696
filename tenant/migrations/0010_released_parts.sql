-- Whether an operator took back what the gateway had not used, and it has not heard of it: what it says that it holds is less then.
ALTER TABLE budget_parts ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
-- A gateway that had forgotten a part could make its row say less than it had spent.
UPDATE budget_parts SET amount = spent WHERE amount < spent;
