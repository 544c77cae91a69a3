# One node of Errand. tini is the init: it reaps the processes that jobs leave behind and passes signals on.
# What dies with a container: every process in it, so also running commands (they end as `lost`, or run again where they may).
# What survives: the database, and /data if it is a volume (output that is not in object storage yet, the node's identity).
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
# The packages that the tests ran with: a global install would leave out the override of package.json.
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
