"""Uses of a judge beyond ranking: its rewards for responses that somebody else generates.

- `scoring`: a judge as a source of rewards
"""

__all__ = ["scoring"]
