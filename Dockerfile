# One Errand node. tini is the init process: it reaps orphaned processes of jobs and forwards signals.
# A stopped container ends every process in it, including running commands (they end as `lost`, or run again if allowed).
# The database survives, and so does /data if it is a volume (output that is not archived yet, and the node's identity).
FROM node:24-slim AS build
WORKDIR /errand
COPY package.json package-lock.json .npmrc ./
COPY scripts/install.cjs scripts/install.cjs
RUN npm ci --include=dev
COPY . .
RUN npm pack --pack-destination /tmp && mv /tmp/errand-*.tgz /tmp/errand.tgz

FROM node:24-slim
RUN apt-get update && apt-get install -y --no-install-recommends tini ca-certificates git \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /tmp/errand.tgz /tmp/errand.tgz
# Install the tested package versions. A global install would ignore the overrides in package.json.
WORKDIR /opt/errand
RUN echo '{"private":true,"overrides":{"rrule-temporal":"2.2.7"}}' > package.json \
  && npm install /tmp/errand.tgz pg@8.23.1 pg-boss@12.38.0 s3mini@1.0.2 && rm /tmp/errand.tgz
ENV PATH=/opt/errand/node_modules/.bin:$PATH
WORKDIR /
RUN useradd --create-home --uid 10001 errand && mkdir /data && chown errand /data
USER errand
ENV ERRAND_HOME=/data ERRAND_HOST=0.0.0.0 ERRAND_PORT=7411
VOLUME /data
EXPOSE 7411
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD node -e "fetch('http://127.0.0.1:7411/health').then((r)=>process.exit(r.ok?0:1),()=>process.exit(1))"
ENTRYPOINT ["tini", "--", "errand"]
CMD ["serve"]
