"""Judges: customizable reward models (`crm.judges.crm_judge`), hub reward models, language models, controls."""
