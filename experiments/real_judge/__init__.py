"""A judge of many tastes on real text: how it is trained, what it knows, and what its leaderboards are worth."""
