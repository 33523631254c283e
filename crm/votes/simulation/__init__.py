"""A simulated arena: users with known taste, authors with known habits."""
