"""The outside world: files, rows, Parquet, hubs, chat endpoints, processes.

- `chat`: ask a language model behind an endpoint
- `draws`: a random generator for (seed, epoch, sample id, purpose)
- `fetch`: a public set's files, from their owners
- `files`: files written whole; result records read back
- `hub`: a dataset of a hub as a local folder; published files by address and digest
- `installed`: the commit of the code at work; what other packages add
- `intake`: rows become records; bad ones are counted, with file, line and why
- `parquet`: records in Parquet
- `processes`: several processes on one job
- `rows`: rows of JSON Lines, JSON, CSV, TSV and Parquet, one at a time
- `untrusted`: bytes, lines and JSON values of files that nobody vouches for
- `words`: words of a text, in scripts without spaces too
"""

__all__ = [
    "chat",
    "draws",
    "fetch",
    "files",
    "hub",
    "installed",
    "intake",
    "parquet",
    "processes",
    "rows",
    "untrusted",
    "words",
]
