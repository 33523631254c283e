"""What the best of k by a judge is worth to a user: on the simulated arena, and on responses of real LLMs."""
