"""Topics of short texts. In: queries or criteria. Out: `frame.Topics`, one topic a text, by any method.

`crm.criteria.topics.find.find_topics` is the way in; nothing is downloaded unless the caller names a model of a hub.
"""
