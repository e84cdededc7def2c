# belay's image: docker build --tag belay:0.1.0 .
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN bash .ci/release /usr/local/bin

# glibc, OpenSSL, the C++ libraries and certificates; no shell, and no libz: belay brings its own.
FROM gcr.io/distroless/cc-debian12
COPY --from=build /usr/local/bin/belay /usr/local/bin/belay
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/belay"]
