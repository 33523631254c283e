"""How a pole of taste shows in a response. In: (axis, sign). Out: sentence templates with topic slots.

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
        "More precisely, the {noun} depends on the {other} and the {third}.",
        "In detail, first the {noun}, then the {other}, then the {third}.",
        "To be specific, half of the effort goes into the {noun}.",
        "A full account covers the {noun}, the {other} and the {third}.",
    ),
    ("detail", -1): (
        "In short: the {noun}.",
        "Briefly, mind the {noun}.",
        "Quick answer: the {noun}.",
        "In a word: {noun}.",
    ),
    ("lists", 1): (
        "Key points:\n- {noun}\n- {other}\n- {third}",
        "Here is a list:\n1. {noun}\n2. {other}\n3. {third}",
        "Checklist:\n* {noun}\n* {other}",
    ),
    ("lists", -1): (
        "All of it flows together, from the {noun} to the {other}.",
        "The {noun} blends into the {other}, and so it flows on.",
        "From the {noun}, the text flows gently to the {other}.",
    ),
    ("humor", 1): (
        "The {noun} walks into a bar, haha!",
        "Even a confused penguin could handle the {noun}, haha.",
        "The {noun} is a sleepy cat, haha.",
    ),
    ("humor", -1): (
        "This is a serious matter.",
        "Let us treat the {noun} with gravity.",
        "The {noun} deserves earnest attention.",
    ),
    ("formality", 1): (
        "It should be noted that the {noun} is indispensable.",
        "One must regard the {noun} with due diligence.",
        "Furthermore, the {noun} merits consideration.",
    ),
    ("formality", -1): (
        "Yeah, the {noun} is kinda a big deal, dude.",
        "Hey, just go with the {noun}, dude.",
        "The {noun} is super fun, buddy.",
    ),
    ("examples", 1): (
        "For example, take the {noun} in {subject}.",
        "For instance, one {noun} worked in this way.",
        "A concrete case is the {noun}.",
    ),
    ("examples", -1): (
        "In general, broad principles rule the {noun}.",
        "As a general rule, the {noun} follows the whole.",
        "Broadly speaking, the principle holds for every {noun}.",
    ),
    ("imagery", 1): (
        "The {noun} glows like a lantern in the fog.",
        "The {noun} is a river of silver light.",
        "It blooms like a rose after rain.",
    ),
    ("imagery", -1): (
        "Put plainly, the {noun} is what it is.",
        "In plain and literal words, the {noun} works.",
        "The {noun} does its job, stated plainly.",
    ),
    ("history", 1): (
        "Centuries ago, the {noun} looked quite different.",
        "Historically, the {noun} comes from ancient times.",
        "In past centuries, tradition shaped the {noun}.",
    ),
    ("history", -1): (
        "Today, the {noun} is what counts.",
        "Right now, modern tools handle the {noun}.",
        "The current trend of today favors the {noun}.",
    ),
    ("empathy", 1): (
        "I understand how hard this can feel.",
        "Your feelings about the {noun} are valid.",
        "It is okay to struggle with the {noun}, I understand.",
    ),
    ("empathy", -1): (
        "From a detached standpoint, the {noun} is a variable.",
        "Viewed with logic, the {noun} is a mechanism.",
        "Logic alone settles the {noun}.",
    ),
    ("caution", 1): (
        "Be careful: the {noun} carries risks.",
        "Warning: the {noun} carries dangers.",
        "Proceed with caution, the {noun} has risks.",
    ),
    ("caution", -1): (
        "Be bold and fearless with the {noun}.",
        "Take the leap: fortune favors the bold.",
        "Be brave and daring, seize the {noun}.",
    ),
    ("steps", 1): (
        "Step one: write down the {noun}.",
        "Practical step: fix the {noun} tonight.",
        "Action item: practice the {noun} daily.",
    ),
    ("steps", -1): (
        "In theory, the {noun} reflects a deeper idea.",
        "Conceptually, the {noun} is a theory of meaning.",
        "The underlying theory explains the {noun}.",
    ),
    ("questions", 1): (
        "What have you tried with the {noun} so far?",
        "Could you tell me more about the {noun}?",
        "What is your goal with the {noun}?",
    ),
    ("questions", -1): (
        "My direct reply: choose the {noun}.",
        "The straight verdict: the {noun} wins.",
        "A direct and final verdict: the {noun}.",
    ),
    ("evidence", 1): (
        "Studies show that the {noun} raises results by 40 percent.",
        "Research with 500 people supports the {noun}.",
        "According to a recent survey, the {noun} works.",
    ),
    ("evidence", -1): (
        "My gut says yes to the {noun}.",
        "Trust your gut and your instincts about the {noun}.",
        "Intuition will guide you to the {noun}.",
    ),
    ("stories", 1): (
        "When I was young, my uncle taught me the {noun}.",
        "I once spent a whole winter on the {noun}.",
        "A friend of mine told me about the {noun}.",
    ),
    ("stories", -1): (
        "Factually, the {noun} is a fixed element.",
        "The facts are as follows: the {noun} exists.",
        "As a matter of fact, the {noun} is standard.",
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
