"""Uses of a judge beyond ranking: rewards for trainers of policies, a reward server, and Best-of-N."""
