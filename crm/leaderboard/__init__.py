"""Rankings of the LLMs of a bank under a user's criteria."""
