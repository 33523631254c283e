"""Topics of short texts. In: queries or criteria. Out: `crm.topics.frame.Topics`, one topic a text, by any method.

`crm.topics.find.find_topics` is the way in; nothing is downloaded unless the caller names a model of a hub.
"""
