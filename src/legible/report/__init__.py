"""The report of a study: one HTML file that opens anywhere, offline.

- `write_report`: writes it, with its plots as PNG and its tables as CSV beside it.

Inside: `returns` reads episodes back from the study, `scenes` and `replays` record and draw them, `findings` gathers
what is said, `charts` and `formats` put it into shapes and figures, `builder` fills the template in ``assets``.
"""

from legible.report.builder import write_report

__all__ = ["write_report"]
