# belay's image: docker build --tag belay:0.1.0 .
# The same with helm, kubectl (for kustomizations) and ssh: docker build --target tools --tag belay-tools:0.1.0 .
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN bash .ci/build /out && bash .ci/image-root /image /out/belay

FROM build AS with-tools
ARG HELM=v4.1.4 KUBECTL=v1.36.3
RUN apt-get update && apt-get install -qy --no-install-recommends openssh-client && rm -rf /var/lib/apt/lists/*
RUN bash .ci/fetch-tools /tools "$HELM" "$KUBECTL" \
    && bash .ci/image-root /image-tools /out/belay /tools/helm /tools/kubectl /usr/bin/ssh

FROM scratch AS tools
COPY --from=with-tools /image-tools /
ENV PATH=/usr/local/bin:/usr/bin STATE_DIRECTORY=/var/lib/belay
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/belay"]

# belay, the libraries that it needs, and certificates; no shell.
FROM scratch
COPY --from=build /image /
ENV PATH=/usr/local/bin:/usr/bin STATE_DIRECTORY=/var/lib/belay
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/belay"]
