"""The report of a run: one self-contained HTML file."""

from trigpoint.report.page import write_report

__all__ = ["write_report"]
