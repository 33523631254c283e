# The leaderboard as a page: docs/leaderboard_page.md, "In a container".
FROM python:3.12-slim

# Further options of pip, such as an index with CPU builds of torch.
ARG PIP_OPTIONS=""

WORKDIR /srv/leaderboard
COPY pyproject.toml setup.cfg README.md LICENSE constraints.txt ./
COPY crm crm
COPY conf conf
RUN pip install --no-cache-dir $PIP_OPTIONS -c constraints.txt '.[app]'

# The index of the bank is kept in /state; mount it to keep it longer than the container.
RUN useradd --create-home --uid 1000 user && mkdir /state && chown user /state
USER user
VOLUME /state
EXPOSE 7860
HEALTHCHECK --start-period=10m CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/api/v1/health', timeout=5)"]
ENTRYPOINT ["crm-app", "host=0.0.0.0", "predictions=/state", "hydra.run.dir=/state/run"]
CMD ["judge=oracle"]
