# Hetero Editor in a container: the page on port 8050. The address with its token is printed by `docker logs`.
#
#   docker build -t hetero-editor .
#   docker run --rm -p 8050:8050 -v "$PWD/models:/models" -v hetero-data:/data hetero-editor
#
# Other commands: docker run --rm hetero-editor python -m editor devices
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 XDG_DATA_HOME=/data XDG_CACHE_HOME=/data/cache

# Graphviz draws the exported DOT files.
RUN apt-get update \
    && apt-get install -y --no-install-recommends graphviz \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 editor \
    && install -d -o editor -g editor /data /models

WORKDIR /app

# The requirements first: they change less often than the code.
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt

COPY LICENSE app.py ./
COPY editor/ editor/
COPY assets/ assets/
COPY examples/ examples/

USER editor
VOLUME ["/data"]
EXPOSE 8050
CMD ["python", "app.py", "--host", "0.0.0.0", "--no-browser"]
