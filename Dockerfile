# A broker in a container: docker build -t penstock . && docker run -p 127.0.0.1:9092:9092 -v data:/data penstock
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/penstock && /opt/penstock/bin/pip install --no-cache-dir --constraint constraints.txt '.[uvloop]'

FROM python:3.11-slim
COPY --from=build /opt/penstock /opt/penstock
COPY packaging/container.properties /etc/penstock/server.properties
RUN useradd --system --home-dir /data --create-home penstock
USER penstock
WORKDIR /data
VOLUME /data
EXPOSE 9092 9644
ENV PATH=/opt/penstock/bin:$PATH PYTHONUNBUFFERED=1
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9644/readyz', timeout=2)"
CMD ["sh", "-c", "[ -f /data/log/meta.properties ] || penstock storage format --standalone -t \"$(penstock storage random-uuid)\" -c /etc/penstock/server.properties; exec penstock server start /etc/penstock/server.properties"]
