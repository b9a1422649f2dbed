# A broker in a container: docker build -t penstock . && docker run -p 127.0.0.1:9092:9092 -v data:/data penstock
# Settings come from the environment, as in Apache Kafka's image: docs/how-to/run-in-containers.md
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/penstock \
 && /opt/penstock/bin/pip install --no-cache-dir --constraint constraints.txt '.[uvloop,regex]'

FROM python:3.11-slim
COPY --from=build /opt/penstock /opt/penstock
COPY packaging/container.properties /etc/penstock/server.properties
COPY --chmod=755 packaging/container-run /usr/local/bin/penstock-container
RUN useradd --system --home-dir /data --create-home penstock \
 && mkdir -p /etc/kafka/docker && ln -s /usr/local/bin/penstock-container /etc/kafka/docker/run
USER penstock
WORKDIR /data
VOLUME /data
EXPOSE 9092 9644
ENV PATH=/opt/penstock/bin:$PATH PYTHONUNBUFFERED=1
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9644/readyz', timeout=2)"
CMD ["penstock-container"]
