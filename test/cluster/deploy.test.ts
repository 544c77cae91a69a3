// Container, compose and Kubernetes files cannot run everywhere, so this test reads them: every file parses, what it
// references exists, and the safeguards that operators expect are set.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import { httpSettings, serverSettings } from '../../src/config.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
type Json = ReturnType<typeof JSON.parse>;

const { port, maxStopMs } = serverSettings.parse({});
/** Longer than a stop takes: first attempts, then calls. */
const minGraceMs = maxStopMs + httpSettings.parse({}).stopTimeoutMs;
const user = 10_001;
/** Environment variables that the program reads, found in the only file that reads them. */
const known = new Set(
  [...`${read('src/config.ts')}${read('src/app.ts')}`.matchAll(/ERRAND_[A-Z0-9_]+/g)].map(String),
);
known.add('ERRAND_HOME');

interface Instruction {
  word: string;
  rest: string;
  stage: number;
}

function instructions(text: string): Instruction[] {
  const joined = text.replaceAll(/\\\n\s*/g, ' ');
  let stage = -1;
  return joined.split('\n').flatMap((line) => {
    const match = /^([A-Z]+) (.+)$/.exec(line);
    if (!match) {
      assert.match(line, /^(#.*)?$/, `not an instruction: ${line}`);
      return [];
    }
    if (match[1] === 'FROM') stage += 1;
    return [{ word: match[1]!, rest: match[2]!, stage }];
  });
}

test('Dockerfile: two stages, existing sources, an init process, no root, a health check', () => {
  const lines = instructions(read('Dockerfile'));
  const stages = lines.filter(({ word }) => word === 'FROM').map(({ rest }) => rest);
  assert.equal(stages.length, 2);
  assert.match(stages[0]!, /^node:24\S* AS build$/);
  const ignored = read('.dockerignore').split('\n').filter(Boolean);
  for (const { rest } of lines.filter(({ word }) => word === 'COPY')) {
    const from = /^--from=(\S+) /.exec(rest);
    if (from) {
      assert.equal(from[1], 'build');
      continue;
    }
    for (const path of rest.split(' ').slice(0, -1)) {
      assert.ok(existsSync(join(root, path)), path);
      assert.ok(!ignored.includes(path.split('/')[0]!), `${path} is ignored`);
    }
  }
  const last = lines.filter(({ stage }) => stage === 1);
  const only = (word: string) => last.findLast((line) => line.word === word)!.rest;
  assert.deepEqual(JSON.parse(only('ENTRYPOINT')), ['tini', '--', 'errand']);
  assert.deepEqual(JSON.parse(only('CMD')), ['serve']);
  assert.equal(only('USER'), 'errand');
  assert.equal(only('EXPOSE'), String(port));
  assert.match(only('HEALTHCHECK'), new RegExp(`:${port}/health`));
  assert.ok(last.some(({ rest }) => rest.includes(`--uid ${user} errand`)));
  assert.ok(last.some(({ rest }) => /apt-get install .*\btini\b/.test(rest)));
  for (const [, name] of only('ENV').matchAll(/(\w+)=/g)) assert.ok(known.has(name!), name);
  // The optional packages have the tested versions.
  const { peerDependencies, overrides } = JSON.parse(read('package.json'));
  const install = last.find(({ rest }) => rest.includes('npm install'))!.rest;
  const pinned = (text: string) =>
    [...text.matchAll(/ ([a-z0-9-]+)@([\d.]+)/g)].map(([, ...pair]) => pair);
  const tested = (...names: string[]) => names.map((name) => [name, peerDependencies[name]]);
  assert.deepEqual(pinned(install), tested('pg', 'pg-boss', 's3mini'));
  assert.deepEqual(JSON.parse(/'(\{.*?\})'/.exec(install)![1]!).overrides, overrides);
  const documented = /npm install [^`]*/.exec(read('docs/cluster.md'))![0];
  assert.deepEqual(pinned(documented), tested('pg', 'pg-boss'));
});

test('compose.yaml: three nodes on one migrated database, each with its own home and address', () => {
  const file = parse(read('compose.yaml'), { merge: true });
  const nodes = ['a', 'b', 'c'];
  for (const name of nodes) {
    const service = file.services[name];
    assert.equal(service.depends_on.migrate.condition, 'service_completed_successfully');
    assert.equal(service.environment.ERRAND_NODE_URL, `http://${name}:${port}`);
    assert.deepEqual(service.volumes, [`${name}:/data`]);
    assert.ok(Number.parseInt(service.stop_grace_period, 10) * 1000 >= minGraceMs, 'time to stop');
    for (const variable of Object.keys(service.environment))
      assert.ok(known.has(variable), variable);
    for (const secret of ['ERRAND_STORE', 'ERRAND_CLUSTER_KEY'])
      assert.match(service.environment[secret], /\$\{\w+:\?/, 'the file contains no password');
  }
  assert.deepEqual(file.services.migrate.command, ['migrate']);
  assert.equal(file.services.migrate.depends_on.db.condition, 'service_healthy');
  assert.match(file.services.db.image, /^postgres:(1[5-9]|2\d)/);
  assert.deepEqual(Object.keys(file.volumes).toSorted(), ['a', 'b', 'c', 'database']);
});

test('Kubernetes: a migration, three nodes with identity and probes, no root, a disruption budget', () => {
  const documents = parseAllDocuments(read('deploy/kubernetes/errand.yaml'));
  const all = documents.map((document) => {
    assert.deepEqual([...document.errors, ...document.warnings], []);
    return document.toJS();
  });
  for (const one of all) assert.ok(one.apiVersion && one.kind && one.metadata.name);
  const of = (kind: string, name?: string) =>
    all.find((one) => one.kind === kind && (name === undefined || one.metadata.name === name));
  const set = of('StatefulSet').spec;
  const pod = set.template.spec;
  const [node] = pod.containers;
  assert.equal(set.replicas, 3);
  assert.deepEqual(set.selector.matchLabels, set.template.metadata.labels);
  assert.equal(of('Service', set.serviceName).spec.clusterIP, 'None');
  assert.equal(of('Service', 'errand').spec.ports[0].targetPort, port);
  for (const service of all.filter(({ kind }) => kind === 'Service'))
    assert.deepEqual(service.spec.selector, set.template.metadata.labels);
  assert.equal(node.ports[0].containerPort, port);
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'])
    assert.deepEqual(node[probe].httpGet, { path: '/health', port }, probe);
  for (const spec of [pod, of('Job').spec.template.spec]) {
    assert.equal(spec.securityContext.runAsUser, user);
    assert.equal(spec.securityContext.runAsNonRoot, true);
    assert.equal(spec.automountServiceAccountToken, false, 'commands get no token');
    for (const { securityContext } of spec.containers) {
      assert.equal(securityContext.allowPrivilegeEscalation, false);
      assert.deepEqual(securityContext.capabilities.drop, ['ALL']);
    }
  }
  assert.ok(pod.terminationGracePeriodSeconds * 1000 >= minGraceMs, 'time to stop');
  assert.equal(pod.securityContext.fsGroup, user, 'the volume belongs to the user');
  assert.deepEqual(of('Job').spec.template.spec.containers[0].args, ['migrate']);
  assert.equal(of('Job').spec.template.spec.containers[0].image, node.image);
  const names = new Set(node.env.map(({ name }: Json) => name));
  for (const name of ['ERRAND_STORE', 'ERRAND_CLUSTER_KEY', 'ERRAND_NODE_URL'])
    assert.ok(names.has(name));
  for (const { name, value, valueFrom } of node.env) {
    assert.ok(known.has(name) || name === 'POD', name);
    if (name === 'ERRAND_STORE' || name === 'ERRAND_CLUSTER_KEY')
      assert.ok(value === undefined && valueFrom.secretKeyRef, `${name} comes from a Secret`);
  }
  const mounted = node.volumeMounts.map(({ name }: Json) => name);
  assert.deepEqual(
    set.volumeClaimTemplates.map(({ metadata }: Json) => metadata.name),
    mounted,
  );
  assert.equal(of('PodDisruptionBudget').spec.maxUnavailable, 1);
});
