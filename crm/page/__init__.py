"""The leaderboard as a page, an HTTP API and a client."""
