"""Judges: customizable reward models (`crm.judges.crm_judge`), hub reward models, language models, controls."""

from crm.judges.config import AnyJudgeConfig
from crm.judges.judge import Asked, Judge, Reading
from crm.judges.open import OpenedJudge, check_judge, open_judge

__all__ = ["AnyJudgeConfig", "Asked", "Judge", "OpenedJudge", "Reading", "check_judge", "open_judge"]
