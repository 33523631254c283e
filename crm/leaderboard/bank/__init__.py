"""Queries and the responses of LLMs to them."""
