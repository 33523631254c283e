#!/bin/sh
# What the image starts, in /state: `app.py` with the settings given, or without any on AlpacaEval's 30 LLMs.
set -e
if [ $# -eq 0 ]; then
    if [ ! -d data ]; then
        crm-prepare fetch=alpacaeval out=fetched hydra.run.dir=run && mv fetched data || {
            echo "The 30 LLMs' responses are missing. Let the container reach the network once, or mount a folder:" >&2
            echo "  python prepare.py fetch=alpacaeval out=data" >&2
            echo "  docker run -p 7860:7860 -v \$PWD/data:/state/data:ro leaderboard" >&2
            exit 1
        }
    fi
    set -- judge=traits bank=alpacaeval bank.queries=200
fi
exec crm-app host=0.0.0.0 predictions=. hydra.run.dir=run "$@"
