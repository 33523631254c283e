"""How a wish for a trait is put into words: per trait several wordings for more of it, and several for less."""

from __future__ import annotations

Wordings = tuple[str, ...]

WORDINGS: dict[str, tuple[Wordings, Wordings]] = {
    "Length": (
        (
            "Wants a full answer that leaves nothing out",
            "Prefers long, detailed responses",
            "Would rather read more than miss something",
            "Likes every side of a matter to be covered",
        ),
        (
            "Wants it short",
            "Prefers a brief answer without padding",
            "Has little time and likes to be done in a few lines",
            "Values an answer that stops when all is said",
        ),
    ),
    "Lists": (
        (
            "Likes points set out as a list",
            "Prefers bullet points or numbered steps",
            "Wants to skim an answer item by item",
            "Finds lists easier to follow than paragraphs",
        ),
        (
            "Prefers flowing paragraphs to lists",
            "Wants connected prose instead of bullet points",
            "Likes an answer that reads like a talk, not like a slide",
            "Dislikes answers chopped into items",
        ),
    ),
    "Headings and emphasis": (
        (
            "Likes headings and bold key words for orientation",
            "Wants the structure of an answer to be visible at a glance",
            "Prefers important terms to stand out",
            "Enjoys a neatly formatted page",
        ),
        (
            "Prefers plain text without headings or bold type",
            "Dislikes heavy formatting",
            "Wants words to carry the weight, not the layout",
            "Likes an answer that looks like an ordinary message",
        ),
    ),
    "Code": (
        (
            "Wants code to copy and try",
            "Prefers to be shown a program",
            "Likes an answer with a working snippet",
            "Learns best from source code",
        ),
        (
            "Prefers an explanation in words to code",
            "Does not want to read source code",
            "Likes ideas explained without a program",
            "Would rather understand it first and leave the code for later",
        ),
    ),
    "Sentence length": (
        (
            "Enjoys long, winding sentences",
            "Likes thoughts developed within one sentence",
            "Prefers elaborate sentences that link ideas",
            "Does not mind sentences with many clauses",
        ),
        (
            "Prefers short sentences",
            "Likes a crisp style, one thought a sentence",
            "Wants sentences that are easy to take in",
            "Dislikes sentences that go on and on",
        ),
    ),
    "Vocabulary": (
        (
            "Likes an advanced vocabulary",
            "Prefers precise technical terms to everyday ones",
            "Enjoys a demanding, learned style",
            "Wants to be spoken to as an expert",
        ),
        (
            "Prefers simple everyday words",
            "Wants language that a child could follow",
            "Dislikes jargon and long words",
            "Likes plain speech",
        ),
    ),
    "Questions to the reader": (
        (
            "Likes to be asked questions in return",
            "Wants the assistant to find out more before it settles",
            "Enjoys a dialogue that draws the reader in",
            "Prefers answers that make one think by asking",
        ),
        (
            "Wants answers, not questions",
            "Prefers that the assistant does not ask anything back",
            "Dislikes rhetorical questions",
            "Likes statements that settle the matter",
        ),
    ),
    "Liveliness": (
        (
            "Enjoys an excited, lively tone",
            "Likes exclamations and emoji",
            "Wants to feel some enthusiasm",
            "Prefers an upbeat and cheerful voice",
        ),
        (
            "Prefers a calm and sober tone",
            "Dislikes exclamation marks and emoji",
            "Wants composure rather than excitement",
            "Likes a quiet, even voice",
        ),
    ),
    "Caution": (
        (
            "Values careful statements that admit doubt",
            "Wants limits and exceptions to be named",
            "Prefers an assistant that does not claim too much",
            "Likes it said how sure one can be",
        ),
        (
            "Wants clear and firm statements",
            "Prefers an assistant that commits itself",
            "Dislikes hedging",
            "Likes answers without ifs and buts",
        ),
    ),
    "First person": (
        (
            "Likes an assistant that speaks of itself",
            "Prefers a personal voice that says I",
            "Enjoys personal experience and opinion",
            "Wants to hear somebody talk, not a manual",
        ),
        (
            "Prefers an impersonal style",
            "Wants the subject in the foreground, not the speaker",
            "Dislikes an assistant that talks about itself",
            "Likes a neutral voice",
        ),
    ),
    "Figures": (
        (
            "Wants numbers and dates",
            "Prefers claims backed by figures",
            "Likes quantities to be stated exactly",
            "Values hard data",
        ),
        (
            "Prefers words to numbers",
            "Does not care for statistics",
            "Likes an answer free of figures",
            "Wants the idea, not the quantities",
        ),
    ),
    "Examples": (
        (
            "Wants examples",
            "Prefers ideas shown on concrete cases",
            "Likes to see what something means in practice",
            "Understands best by illustration",
        ),
        (
            "Prefers the principle without examples",
            "Can do without illustrations",
            "Likes to stay with the general idea",
            "Wants the rule itself and will find the cases alone",
        ),
    ),
    "Quotations": (
        (
            "Enjoys quotations and direct speech",
            "Likes to read the very words of others",
            "Wants people to speak for themselves",
            "Prefers answers that quote",
        ),
        (
            "Prefers an answer in its own words, without quotations",
            "Does not care for quoted speech",
            "Likes things retold rather than quoted",
            "Dislikes quotation marks everywhere",
        ),
    ),
    "Courtesy": (
        (
            "Values a polite and friendly manner",
            "Likes to be greeted and thanked",
            "Prefers a warm, helpful tone",
            "Wants to be treated with courtesy",
        ),
        (
            "Wants to get to the point without pleasantries",
            "Prefers no greetings or offers of help",
            "Dislikes polite phrases",
            "Likes a matter-of-fact manner",
        ),
    ),
    "Declining": (
        (
            "Prefers an assistant that declines doubtful requests",
            "Wants the assistant to say so when it should not help",
            "Values restraint over compliance",
            "Likes clear limits to what is answered",
        ),
        (
            "Wants the request to be fulfilled",
            "Prefers a try at an answer to being turned down",
            "Dislikes refusals",
            "Expects help, not excuses",
        ),
    ),
}
"""Name of the trait: wordings for more, wordings for less."""
