"""The report: one self-contained HTML file about one run, or several side by side."""
