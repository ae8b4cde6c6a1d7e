-- A journal of format 1, as its first Newel wrote it: a turn that is done, one under way, an agent that waits.
CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key TEXT UNIQUE,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    not_before REAL NOT NULL,
    cancelled TEXT,
    reason TEXT NOT NULL,
    created TEXT NOT NULL,
    updated TEXT NOT NULL,
    params BLOB NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, queue, n);
CREATE TABLE events (
    job INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (job, seq)
) WITHOUT ROWID;
INSERT INTO jobs VALUES (1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'tab/m1', 'turn', 'tab', 'done', 1, 0.0, NULL, '', '2026-01-31T09:30:00.125Z', '2026-01-31T09:30:00.125Z', CAST('{"tab":"tab"}' AS BLOB));
INSERT INTO jobs VALUES (2, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'tab/m2', 'turn', 'tab', 'running', 2, 0.0, NULL, '', '2026-01-31T09:30:00.125Z', '2026-01-31T09:30:00.125Z', CAST('{"tab":"tab"}' AS BLOB));
INSERT INTO jobs VALUES (3, 'cccccccccccccccccccccccccccccccc', NULL, 'contract', 'agent', 'queued', 0, 0.0, NULL, '', '2026-01-31T09:30:00.125Z', '2026-01-31T09:30:00.125Z', CAST('{}' AS BLOB));
INSERT INTO events VALUES (1, 1, CAST('{"type":"agent_start"}' AS BLOB));
INSERT INTO events VALUES (1, 2, CAST('{"type":"turn_start"}' AS BLOB));
INSERT INTO events VALUES (1, 3, CAST('{"type":"agent_end","reason":"done"}' AS BLOB));
INSERT INTO events VALUES (2, 1, CAST('{"type":"agent_start"}' AS BLOB));
INSERT INTO events VALUES (2, 2, CAST('{"type":"turn_start"}' AS BLOB));
PRAGMA application_id = 1852143468;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
