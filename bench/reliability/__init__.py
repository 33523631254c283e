"""What the project promises to survive, tried and counted in one table."""
