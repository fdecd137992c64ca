"""The paper's tables, from trained policies to Markdown, CSV and figures.

- `plan`: which policies, which settings, which table, read from TOML.
- `records`: everything that a study of one policy found, in a small file.
- `tables`: tables built from records alone.
- `figures`: a picture of each table.
- `origin`: which code and which processor made a record.
- `running`: run missing jobs and write the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from lab.reproduction.plan import Job, StudiesPlan, TablePlan, find_tables
    from lab.reproduction.running import (
        compare_records,
        expected_seconds,
        jobs_of,
        load_table_plans,
        missing_jobs,
        reproduce,
        table_from_records,
        write_tables,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
