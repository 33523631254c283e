"""Requests to chat endpoints, and what their replies hold."""
