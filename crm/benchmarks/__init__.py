"""Public benchmarks of reward models by their official protocols: ``evaluate.py suite=rm_bench``."""
