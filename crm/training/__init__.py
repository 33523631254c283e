"""One training run, and sweeps of runs."""
