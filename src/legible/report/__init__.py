"""The report of a study: one HTML file that opens anywhere, offline.

- `write_report`: writes it, with plots as PNG files and tables as CSV files next to it.

Inside: `findings` collects the content, from `weakness_cards`, `tables`, `importances`, `returns` and `command`;
`selection` chooses episodes, `replays` records them, marks the `interventions` and draws the `scenes`; `charts` and
`plots` are the figures; `builder` fills the template in ``assets``, and `exports` writes tables and plots.
"""

from legible.report.builder import write_report

__all__ = ["write_report"]
