"""Picking between answers instead of typing criteria."""
