-- Which store this is: drawn once, so that a copy of it on a gateway's disk says what it is a copy of.
CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id BLOB NOT NULL CHECK (length(id) = 16)
) STRICT;

-- What the last changes were: a revision that a store came to once more, after it was restored from a backup, has another token.
CREATE TABLE history (
    revision INTEGER PRIMARY KEY,
    token INTEGER NOT NULL -- 64 random bits, read as a signed number
) STRICT;
