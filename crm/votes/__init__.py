"""Who preferred what. In: files of votes, public sets or a simulation. Out: `Preference` records, split by prompt.

- `catalogue`: every source by the name that ``data=`` takes
- `fields`: checked fields of a row
- `mixture`: several sources as one
- `near_duplicates`: texts that are almost the same (MinHash)
- `own`: the formats that a user's own votes may have
- `public`: public sets
- `recognise`: which source reads a file, by its columns
- `row_reader`: one reader for all sources whose rows become records one by one
- `sampling`: shares and orders that depend on seed and id alone
- `simulation`: an arena of simulated users and authors
- `splits`: `Splits`, by prompt: train, validation, suites
"""

__all__ = [
    "catalogue",
    "fields",
    "mixture",
    "near_duplicates",
    "own",
    "public",
    "recognise",
    "row_reader",
    "sampling",
    "simulation",
    "splits",
]
