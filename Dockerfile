# docs/guide/image.md says how to build, check and run it. `make image` fills in VERSION and REVISION.

# The interpreter, the system's libraries and pip come from here: any image of Debian with CPython 3.11 or later.
# By digest, so that a build next week has the same; who moves it moves the tag too.
ARG BASE=python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b


# What the exporter depends on, each by the digest in the lock, compiled so that no start has to do it. All that is copied
# from one stage to another has one time, so that what is the same is also the same image.
FROM ${BASE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY image/requirements.lock /build/
RUN python3 -m venv --without-pip /opt/spec-decode-exporter \
 && python3 -m pip --python /opt/spec-decode-exporter/bin/python3 install --quiet --no-compile \
    --require-hashes --only-binary :all: --no-deps --requirement /build/requirements.lock \
 && rm -rf /opt/spec-decode-exporter/include /opt/spec-decode-exporter/bin/[Aa]ctivate* \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/spec-decode-exporter \
 && find /opt/spec-decode-exporter -exec touch --no-dereference --date=@0 {} +


# The exporter itself, in a tree of its own: a release then changes one small layer.
FROM packages AS program
COPY image/build.lock /build/
RUN python3 -m venv /build/tools \
 && /build/tools/bin/pip install --quiet --require-hashes --only-binary :all: --no-deps --requirement /build/build.lock
COPY pyproject.toml hatch_build.py README.md LICENSE /build/source/
COPY exporter /build/source/exporter
# The exporter serves these under /docs/.
COPY docs /build/source/docs
COPY config/prometheus /build/source/config/prometheus
COPY config/alertmanager /build/source/config/alertmanager
COPY grafana/dashboards /build/source/grafana/dashboards
RUN /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir /build/wheels /build/source \
 && python3 -m pip --python /opt/spec-decode-exporter/bin/python3 install --quiet --no-compile --no-deps \
    --no-index --ignore-installed --prefix /program /build/wheels/*.whl \
 && python3 -m compileall -q --invalidation-mode unchecked-hash -s /program -p /opt/spec-decode-exporter /program \
 && find /program -exec touch --no-dereference --date=@0 {} +


# The interpreter and the few libraries that it and the packages load. No shell, no package manager.
FROM packages AS system
COPY image/assemble.py /build/
RUN python3 /build/assemble.py /system /opt/spec-decode-exporter \
 && python3 -m compileall -q --invalidation-mode unchecked-hash -s /system -p / /system \
 && find /system -exec touch --no-dereference --date=@0 {} +


FROM scratch
COPY --from=system /system/ /
COPY --from=packages /opt/spec-decode-exporter /opt/spec-decode-exporter
COPY --from=program /program /opt/spec-decode-exporter

ENV PATH=/opt/spec-decode-exporter/bin:/usr/local/bin \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
EXPOSE 7732
# No HEALTHCHECK: Kubernetes does not look at it, and each one would start a second interpreter. Ask /-/healthy.
ENTRYPOINT ["/opt/spec-decode-exporter/bin/spec-decode-exporter"]
# The defaults are a sidecar's: vLLM at http://localhost:8000, our page at :7732.
CMD ["run"]

ARG BASE
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=
ENV SPEC_DECODE_EXPORTER_REVISION=${REVISION}
LABEL org.opencontainers.image.title="spec-decode-exporter" \
      org.opencontainers.image.description="Prometheus exporter that says what vLLM's speculative-decoding counters mean now" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="${BASE}"
