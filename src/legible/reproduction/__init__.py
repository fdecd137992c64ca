"""The paper's tables, from trained policies to Markdown, CSV and figures.

- `plan`: which policies, which settings, which table, read from TOML.
- `records`: everything that a study of one policy found, in a small file.
- `tables`: tables built from records alone.
- `figures`: a picture of each table.
- `origin`: which code and which processor made a record.
- `running`: run what is missing and write the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_names

if TYPE_CHECKING:
    from legible.reproduction.plan import Job, StudiesPlan, TablePlan, find_tables
    from legible.reproduction.running import (
        compare_records,
        expected_seconds,
        jobs_of,
        load_table_plans,
        missing_jobs,
        reproduce,
        table_from_records,
        write_tables,
    )

__all__ = [
    "Job",
    "StudiesPlan",
    "TablePlan",
    "compare_records",
    "expected_seconds",
    "find_tables",
    "jobs_of",
    "load_table_plans",
    "missing_jobs",
    "reproduce",
    "table_from_records",
    "write_tables",
]

__getattr__ = lazy_names(
    __name__,
    {
        "plan": ("Job", "StudiesPlan", "TablePlan", "find_tables"),
        "running": (
            "compare_records",
            "expected_seconds",
            "jobs_of",
            "load_table_plans",
            "missing_jobs",
            "reproduce",
            "table_from_records",
            "write_tables",
        ),
    },
)
