"""The user-centric subjective leaderboard: a page, an HTTP API, a client. In: a bank and a judge. Out: rankings."""
