"""A simulated arena: users with known taste, authors with known habits.

- `arena`: votes of the whole arena
- `authors`: the simulated LLMs
- `axes`: what users care about, in words
- `markers`: the sentences that show a pole, and those that show none
- `responses`: what an author writes
- `taste`: from criteria to an axis and its pole
- `topics`: queries by topic
- `truth`: how strongly a response shows each axis
- `votes`: who wins, by a Bradley-Terry user
"""

__all__ = ["arena", "authors", "axes", "markers", "responses", "taste", "topics", "truth", "votes"]
