-- What a tenant may hold of an engine's memory. A tenant without a row has no floor, no cap and the weight 1.
CREATE TABLE shares (
    tenant BLOB PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    floor INTEGER NOT NULL CHECK (floor >= 0), -- tokens that no other tenant can hold
    cap INTEGER CHECK (cap > 0 AND cap >= floor), -- tokens at most; NULL as many as there are
    weight INTEGER NOT NULL CHECK (weight BETWEEN 1 AND 1000)
) STRICT;

CREATE TRIGGER shares_insert AFTER INSERT ON shares BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER shares_update AFTER UPDATE ON shares BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER shares_delete AFTER DELETE ON shares BEGIN UPDATE revision SET value = value + 1; END;
