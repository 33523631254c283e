"""Customizable reward models: read a user's criteria, a query and two responses; say which one that user prefers."""

__version__ = "0.1.0"
