"""Judges on test suites: predictions, results, comparisons, robustness."""
