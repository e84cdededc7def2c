# belay's image: docker build --tag belay:0.1.0 .
# Recommended beside belay, in /usr/local/bin: kustomize (or kubectl) and helm, where repositories hold kustomizations or
# charts. docs/install.md says how.
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN bash .ci/release /usr/local/bin

# docker build --target ssh: the same with `ssh`, for repositories behind it. ssh wants its user in /etc/passwd.
FROM debian:bookworm-slim AS ssh
RUN apt-get update && apt-get install -qy --no-install-recommends ca-certificates openssh-client \
    && rm -rf /var/lib/apt/lists/* && useradd --uid 65532 --home-dir /var/lib/belay belay
COPY --from=build /usr/local/bin/belay /usr/local/bin/belay
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/belay"]

# glibc, the C++ libraries and certificates; no shell, and no libz: belay brings its own.
FROM gcr.io/distroless/cc-debian12
COPY --from=build /usr/local/bin/belay /usr/local/bin/belay
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/belay"]
