"""The tables of the local orchestrator, by numbered migrations. A migration that has shipped is never edited."""

from __future__ import annotations

MIGRATIONS = (
    """
    CREATE TABLE identity (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        id TEXT NOT NULL
    );
    CREATE TABLE workflows (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('RUNNING', 'COMPLETED', 'FAILED', 'TERMINATED')),
        reason TEXT NOT NULL DEFAULT '',
        created_at TEXT NOT NULL,
        ended_at TEXT
    );
    CREATE TABLE tasks (
        id TEXT PRIMARY KEY,
        workflow TEXT NOT NULL REFERENCES workflows (id),
        name TEXT NOT NULL,
        reference TEXT NOT NULL,
        seq INTEGER NOT NULL,
        iteration INTEGER NOT NULL DEFAULT 0,
        retry_count INTEGER NOT NULL DEFAULT 0,
        retry_of TEXT REFERENCES tasks (id),
        status TEXT NOT NULL CHECK (status IN (
            'SCHEDULED', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'FAILED_WITH_TERMINAL_ERROR', 'TIMED_OUT', 'CANCELED'
        )),
        input TEXT NOT NULL,
        output TEXT,
        reason TEXT NOT NULL DEFAULT '',
        poll_count INTEGER NOT NULL DEFAULT 0,
        worker_id TEXT,
        retry_limit INTEGER NOT NULL,
        retry_delay REAL NOT NULL,
        response_seconds REAL NOT NULL,
        scheduled_at TEXT NOT NULL,
        due_at TEXT NOT NULL,
        started_at TEXT,
        lease_until TEXT,
        ended_at TEXT
    );
    CREATE INDEX tasks_waiting ON tasks (name, due_at) WHERE status = 'SCHEDULED';
    CREATE INDEX tasks_leased ON tasks (lease_until) WHERE status = 'IN_PROGRESS';
    CREATE INDEX tasks_running ON tasks (scheduled_at) WHERE status IN ('SCHEDULED', 'IN_PROGRESS');
    CREATE INDEX tasks_of_workflow ON tasks (workflow, seq);
    CREATE TABLE task_logs (
        task_id TEXT NOT NULL REFERENCES tasks (id),
        at TEXT NOT NULL,
        line TEXT NOT NULL
    );
    CREATE INDEX task_logs_of_task ON task_logs (task_id);
    """,
    # A row of `targets` is a store branch that a running workflow writes: nobody else's may, until it is over.
    """
    PRAGMA defer_foreign_keys = ON;
    CREATE TABLE workflows_before AS SELECT * FROM workflows;
    DROP TABLE workflows;
    CREATE TABLE workflows (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('RUNNING', 'COMPLETED', 'FAILED', 'TIMED_OUT', 'TERMINATED')),
        reason TEXT NOT NULL DEFAULT '',
        definition TEXT NOT NULL,
        rules TEXT NOT NULL DEFAULT '{}',
        modules TEXT NOT NULL DEFAULT '[]',
        input TEXT NOT NULL,
        output TEXT,
        epoch INTEGER NOT NULL DEFAULT 1,
        created_at TEXT NOT NULL,
        limit_at TEXT,
        ended_at TEXT
    );
    INSERT INTO workflows (id, name, status, reason, definition, rules, input, created_at, ended_at)
        SELECT w.id, w.name, w.status, w.reason,
            json_object('name', w.name, 'tasks', json_array(json_object(
                'name', t.name, 'taskReferenceName', t.reference, 'inputParameters', (
                    SELECT json_group_object(key, '${workflow.input.' || key || '}') FROM json_each(t.input)
                )
            ))),
            json_object(t.name, json_object(
                'count', t.retry_limit, 'delay_seconds', t.retry_delay, 'response_seconds', t.response_seconds
            )),
            t.input, w.created_at, w.ended_at
        FROM workflows_before w JOIN tasks t ON t.workflow = w.id AND t.seq = 1;
    DROP TABLE workflows_before;
    CREATE INDEX workflows_running ON workflows (limit_at) WHERE status = 'RUNNING';
    CREATE INDEX workflows_in_order ON workflows (created_at, id);
    ALTER TABLE tasks ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE tasks ADD COLUMN first_at TEXT;
    ALTER TABLE tasks ADD COLUMN limit_at TEXT;
    CREATE INDEX tasks_limited ON tasks (limit_at)
        WHERE limit_at IS NOT NULL AND status IN ('SCHEDULED', 'IN_PROGRESS');
    CREATE INDEX tasks_waiting_of_workflow ON tasks (workflow, due_at) WHERE status = 'SCHEDULED';
    CREATE TABLE targets (
        target TEXT PRIMARY KEY,
        workflow TEXT NOT NULL REFERENCES workflows (id)
    );
    CREATE INDEX targets_of_workflow ON targets (workflow);
    """,
    # When attempts of tasks with a limited rate were handed out; those of other tasks are not noted.
    """
    CREATE TABLE handed_out (
        name TEXT NOT NULL,
        at TEXT NOT NULL
    );
    CREATE INDEX handed_out_in_order ON handed_out (name, at);
    """,
)
