# The leaderboard as a page: docs/leaderboard_page.md, "In a container".
FROM python:3.12-slim

# Further options of pip, such as an index with CPU builds of torch.
ARG PIP_OPTIONS=""

WORKDIR /srv/leaderboard
COPY pyproject.toml setup.cfg README.md LICENSE constraints.txt ./
COPY crm crm
COPY conf conf
RUN pip install --no-cache-dir $PIP_OPTIONS -c constraints.txt '.[app]'
COPY docker_start.sh /usr/local/bin/

# The bank's files, what is counted in them and indexes; mount it to keep them longer than the container.
RUN useradd --create-home --uid 1000 user && mkdir /state && chown user /state
USER user
WORKDIR /state
VOLUME /state
EXPOSE 7860
HEALTHCHECK --start-period=10m CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/api/v1/health', timeout=5)"]
ENTRYPOINT ["docker_start.sh"]
