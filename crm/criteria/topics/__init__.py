"""Topics of prompts: found, named, judged.

- `embed`: texts to vectors
- `find`: vectors to topics
- `frame`: the topics of a dataset
- `naming`: names for topics
- `quality`: how well two groupings agree
"""

__all__ = ["embed", "find", "frame", "naming", "quality"]
