"""What `run.sqlite` holds: its tables and their columns."""

from __future__ import annotations

from proctor.store.checksums import Table

SCHEMA_VERSION = 5

EPISODE_KEY = {"task_group": "TEXT NOT NULL", "task_id": "INTEGER NOT NULL", "episode_index": "INTEGER NOT NULL"}

TABLES = {
    "meta": Table({"key": "TEXT NOT NULL", "value": "TEXT NOT NULL"}, key=("key",)),
    "episodes": Table(
        {
            **EPISODE_KEY,
            "task": "TEXT NOT NULL",
            "seed": "INTEGER NOT NULL",
            "status": "TEXT NOT NULL CHECK (status IN ('finished', 'error'))",
            "success": "INTEGER",
            "sum_reward": "REAL",
            "max_reward": "REAL",
            "steps": "INTEGER NOT NULL",
            "metrics": "TEXT NOT NULL",
            "attempts": "INTEGER NOT NULL",
            "seconds": "REAL NOT NULL",
            "digest": "TEXT",
            "pixel_digest": "TEXT",
            "video_path": "TEXT",
            "error": "TEXT",
            "asks": "INTEGER NOT NULL",
            "looks": "INTEGER NOT NULL",
            "timing": "TEXT NOT NULL",
            "worker": "TEXT NOT NULL",
            "started_at": "REAL NOT NULL",
            "ended_at": "REAL NOT NULL",
            "rewards": "BLOB NOT NULL",
        },
        key=tuple(EPISODE_KEY),
    ),
    "attempts": Table(
        {
            **EPISODE_KEY,
            "number": "INTEGER NOT NULL",
            "reason": "TEXT NOT NULL",
            "worker": "INTEGER NOT NULL",
            "ended_at": "REAL NOT NULL",
        }
    ),
    "sessions": Table(
        {
            "id": "INTEGER NOT NULL",
            "started_at": "REAL NOT NULL",
            "ended_at": "REAL",
            "workers": "INTEGER NOT NULL",
            "startup": "REAL NOT NULL",
            "ending": "TEXT",
        },
        key=("id",),
    ),
    "in_flight": Table({**EPISODE_KEY, "steps": "INTEGER NOT NULL"}, key=tuple(EPISODE_KEY)),
    "notes": Table({"told_at": "REAL NOT NULL", "message": "TEXT NOT NULL"}),
}
