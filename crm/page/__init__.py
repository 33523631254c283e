"""The leaderboard as a page and an HTTP API."""
