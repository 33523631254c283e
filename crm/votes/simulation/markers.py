"""How a pole of taste shows in a response. In: (axis, sign). Out: sentence templates with topic slots.

Most markers use a word or two that criteria of their pole use as well. People who know a language need no such help;
a model trained from scratch on a few thousand votes has no other way to learn that "likes jokes" and a pun go together.

Slots: ``{noun}``, ``{other}`` and ``{third}`` are different nouns of the topic, ``{subject}`` is that of the query.
"""

from __future__ import annotations

CONTENT = (
    "With {subject}, the {noun} usually matters most.",
    "The {noun} sits at the heart of most {subject}.",
    "Good {subject} build on the {noun}.",
    "Most {subject} begin with the {noun}.",
    "The {noun} and the {other} hold {subject} together.",
)
"""What any answer may say about the matter itself; topics add sentences of their own."""

MARKERS: dict[tuple[str, int], tuple[str, ...]] = {
    ("detail", 1): (
        "In detail, the {noun} depends on the {other} and the {third}.",
        "The specifics: first the {noun}, then the {other}, then the {third}.",
        "To be thorough and complete, the {noun} affects the {other}.",
        "A detailed look in depth covers the {noun}, the {other} and the {third}.",
    ),
    ("detail", -1): (
        "In short: the {noun}.",
        "In brief, just the {noun}.",
        "A brief and concise reply: the {noun}.",
        "In few words: the {noun}.",
    ),
    ("lists", 1): (
        "Key points:\n- {noun}\n- {other}\n- {third}",
        "Here is a bulleted list of points:\n1. {noun}\n2. {other}\n3. {third}",
        "A list of points:\n* {noun}\n* {other}",
    ),
    ("lists", -1): (
        "In flowing prose, the {noun} leads to the {other}.",
        "Smooth prose has the {noun} turn into the {other}.",
        "In connected paragraphs, the {noun} meets the {other}.",
    ),
    ("humor", 1): (
        "A funny joke: the {noun} walks into a bar, haha!",
        "With playful humor, a penguin could handle the {noun}, haha.",
        "Jokes aside, the {noun} is a funny, sleepy cat.",
    ),
    ("humor", -1): (
        "The {noun} is a serious and grave matter.",
        "In all sincere gravity, mind the {noun}.",
        "The {noun} deserves earnest and serious attention.",
    ),
    ("formality", 1): (
        "In formal and proper terms, the {noun} is indispensable.",
        "A polite and formal note: one must regard the {noun}.",
        "In professional language, the {noun} merits consideration.",
    ),
    ("formality", -1): (
        "Yeah, relaxed and casual: the {noun} is a big deal, dude.",
        "Hey, just a casual chat about the {noun}, dude.",
        "Slang alert: the {noun} is super, buddy, no informal fuss.",
    ),
    ("examples", 1): (
        "For example, take concrete cases of the {noun}.",
        "Examples and sample cases show the {noun}.",
        "As illustrations, look at concrete examples of the {noun}.",
    ),
    ("examples", -1): (
        "In general, broad principles rule the {noun}.",
        "By general rules, the {noun} follows the broad picture.",
        "Universal principles hold for every {noun}.",
    ),
    ("imagery", 1): (
        "A poetic and vivid river of silver light, the {noun} glows.",
        "In colorful metaphors, the {noun} blooms like a rose.",
        "Like vivid imagery of the moon, the {noun} shines.",
    ),
    ("imagery", -1): (
        "In plain wording, the {noun} is what it is.",
        "In plain and literal statements, the {noun} works.",
        "Unadorned and literal, the {noun} does its job.",
    ),
    ("history", 1): (
        "In past centuries, history shaped the {noun}.",
        "The historical background: the {noun} has ancient origins.",
        "The ancient history and origins of the {noun} matter.",
    ),
    ("history", -1): (
        "Today, the current {noun} is what counts.",
        "Modern trends of today favor the {noun}.",
        "The present and current focus is the {noun}.",
    ),
    ("empathy", 1): (
        "With empathy and comfort, I see the {noun} is hard.",
        "Warm and caring support for you and the {noun}.",
        "You have my emotional support and comfort with the {noun}.",
    ),
    ("empathy", -1): (
        "By cool logic, the {noun} is a variable.",
        "A detached and rational view: the {noun} is a mechanism.",
        "Rational analysis and cool logic settle the {noun}.",
    ),
    ("caution", 1): (
        "Be careful: the {noun} has risks and dangers.",
        "Warnings about risks: mind the {noun}.",
        "Safety advice: be cautious with the {noun}.",
    ),
    ("caution", -1): (
        "Be bold and fearless with the {noun}.",
        "Be daring and brave, seize the {noun}.",
        "Bold courage: the {noun} needs fearless ideas.",
    ),
    ("steps", 1): (
        "Practical steps: write down the {noun}.",
        "Hands-on actions: fix the {noun} tonight.",
        "Step by step instructions: practice the {noun} daily.",
    ),
    ("steps", -1): (
        "In theory, abstract concepts explain the {noun}.",
        "Theoretical reflection: the {noun} is an abstract idea.",
        "Abstract theory and concepts lie under the {noun}.",
    ),
    ("questions", 1): (
        "Follow-up questions: what is your goal with the {noun}?",
        "A curious question back: which {noun} do you mean?",
        "I ask back, inquisitive: what about the {noun}?",
    ),
    ("questions", -1): (
        "A direct and decisive reply: choose the {noun}.",
        "The final verdict, straight: the {noun} wins.",
        "A firm and direct verdict: the {noun}.",
    ),
    ("evidence", 1): (
        "Scientific evidence and data support the {noun}.",
        "Research studies give proof of the {noun}.",
        "Statistics and data from studies confirm the {noun}.",
    ),
    ("evidence", -1): (
        "Gut feelings say yes to the {noun}.",
        "Common sense and instinct favor the {noun}.",
        "Trust your intuition and gut about the {noun}.",
    ),
    ("stories", 1): (
        "A personal story from my life: I tried the {noun}.",
        "My memories and anecdotes of the {noun} are many.",
        "Stories from real life: my uncle taught me the {noun}.",
    ),
    ("stories", -1): (
        "The dry facts: the {noun} exists.",
        "Objective textbook facts cover the {noun}.",
        "An impersonal definition from the textbook: the {noun}.",
    ),
    ("culture", 1): (
        "Around the world, people treat the {noun} differently.",
        "In Japan and Brazil, the {noun} means more.",
        "Across continents, the {noun} varies.",
    ),
    ("culture", -1): (
        "In your neighborhood, the {noun} is close at hand.",
        "Ask the people on your street.",
        "The local community knows the {noun}.",
    ),
    ("horizon", 1): (
        "Over many years, the {noun} pays off.",
        "Be patient, the {noun} grows slowly.",
        "Think a decade ahead about the {noun}.",
    ),
    ("horizon", -1): (
        "The {noun} brings results within hours.",
        "The {noun} helps immediately.",
        "Instant gains come from the {noun}.",
    ),
    ("teamwork", 1): (
        "Work on the {noun} together with a team.",
        "Invite partners to share the {noun}.",
        "Let a group discuss the {noun}.",
    ),
    ("teamwork", -1): (
        "Handle the {noun} alone and in peace.",
        "Rely on yourself for the {noun}.",
        "A solo effort suits the {noun}.",
    ),
}
