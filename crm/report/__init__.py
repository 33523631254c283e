"""Numbers to statistics, tables, pictures and pages. Never loads torch.

- `plots`: learning curves, suite accuracy, leaderboards
- `report`: one self-contained HTML page
- `statistics`: clustered intervals, calibration, Holm, Kendall's tau
- `tables`: Markdown, CSV and LaTeX tables under a caption
- `terminal`: tables for people who look on
- `trackers`: final numbers in W&B or TensorBoard
"""

__all__ = ["plots", "report", "statistics", "tables", "terminal", "trackers"]
