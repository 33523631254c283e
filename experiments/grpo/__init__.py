"""Policies trained by GRPO against a customizable reward model, measured by the simulation's truth."""
