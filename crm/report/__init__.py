"""Numbers to statistics, tables, pictures and pages. Never loads torch.

- `plots`: learning curves, suite accuracy, leaderboards
- `report`: one self-contained HTML page
- `statistics`: clustered intervals, calibration, Holm, Kendall's tau
- `tables`: Markdown, CSV and LaTeX tables under a caption
- `trackers`: final numbers in W&B or TensorBoard
"""

__all__ = ["plots", "report", "statistics", "tables", "trackers"]
