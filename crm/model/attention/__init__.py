"""Attention that reads what sequences share once: `decoder`, and `frozen_layers`, run once for each beginning."""
