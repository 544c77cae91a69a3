// Prometheus metrics: jobs per queue and status, finished jobs with wait and run times, nodes, connections, this process.
// `promtool check metrics` accepts the output.
import type { ServerResponse } from 'node:http';
import type { App } from './app.ts';
import { bucketSeconds, type Histogram } from './jobs/finished-counts.ts';
import { counterScope } from './jobs/intents.ts';
import type { PostgresStore } from './store/postgres/postgres.ts';
import type { Store } from './store/store.ts';

interface Sample {
  labels?: Record<string, string>;
  value: number;
  /** `_bucket`, `_sum` or `_count` of a histogram. */
  suffix?: string;
}

export async function serveMetrics(app: App, response: ServerResponse): Promise<void> {
  const text = await metricsText(app);
  response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(text);
}

class Page {
  private readonly lines: string[] = [];

  add(
    name: string,
    help: string,
    samples: readonly Sample[],
    type: 'gauge' | 'counter' | 'histogram' = 'gauge',
  ): void {
    this.lines.push(`# HELP errand_${name} ${help}`, `# TYPE errand_${name} ${type}`);
    for (const { labels = {}, value, suffix = '' } of samples) {
      const pairs = Object.entries(labels).map(([key, text]) => `${key}=${labelText(text)}`);
      const shown = pairs.length > 0 ? `{${pairs.join(',')}}` : '';
      this.lines.push(`errand_${name}${suffix}${shown} ${value}`);
    }
  }

  histogram(name: string, help: string, byKind: ReadonlyMap<string, Histogram>): void {
    const samples = [...byKind].flatMap(([kind, histogram]) => histogramSamples(kind, histogram));
    this.add(name, help, samples, 'histogram');
  }

  text(): string {
    return `${this.lines.join('\n')}\n`;
  }
}

/** The format escapes only backslash, quote and line feed. */
const labelText = (text: string): string =>
  `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;

function histogramSamples(kind: string, { counts, sumSeconds }: Histogram): Sample[] {
  let below = 0;
  const buckets = counts.map((count, i): Sample => {
    below += count;
    const le = i < bucketSeconds.length ? String(bucketSeconds[i]) : '+Inf';
    return { labels: { kind, le }, value: below, suffix: '_bucket' };
  });
  return [
    ...buckets,
    { labels: { kind }, value: sumSeconds, suffix: '_sum' },
    { labels: { kind }, value: below, suffix: '_count' },
  ];
}

async function metricsText(app: App): Promise<string> {
  const page = new Page();
  await addJobs(page, app);
  await addNodes(page, app);
  await addStore(page, app);
  addProcess(page);
  return page.text();
}

async function addJobs(page: Page, { jobs, store, runner }: App): Promise<void> {
  const counts: Sample[] = [];
  for (const { kind, name } of await jobs.ledger.queues()) {
    for (const [status, value] of Object.entries(await store.counters(counterScope(kind, name))))
      counts.push({ labels: { kind, queue: name, status }, value });
  }
  page.add('jobs', 'Stored jobs by queue and status.', counts);
  page.add('attempts_running', 'Attempts running on this node.', [{ value: runner.activeCount() }]);
  const finished = jobs.finished
    .counts()
    .map(({ count, ...labels }): Sample => ({ labels, value: count }));
  page.add(
    'jobs_finished_total',
    'Jobs that this server finished since it started.',
    finished,
    'counter',
  );
  const { waits, runs } = jobs.finished;
  page.histogram('job_wait_seconds', 'Time from due to start of finished jobs.', waits);
  page.histogram('job_run_seconds', 'Run time of finished jobs.', runs);
}

async function addNodes(page: Page, { cluster }: App): Promise<void> {
  const nodes = await cluster.nodes.rows.list();
  page.add('nodes', 'Nodes by state.', [
    ...['active', 'cordoned', 'draining'].map((state) => ({
      labels: { state },
      value: nodes.filter((node) => node.state === state && cluster.nodes.isAlive(node)).length,
    })),
    {
      labels: { state: 'gone' },
      value: nodes.filter((node) => !cluster.nodes.isAlive(node)).length,
    },
  ]);
}

async function addStore(page: Page, { store }: App): Promise<void> {
  page.add(
    'events_total',
    'Events written so far.',
    [{ value: await store.eventCursor() }],
    'counter',
  );
  page.add('store_bytes', 'Bytes of live rows.', [{ value: await store.size() }]);
  if (!isPostgres(store)) return;
  const { total, idle, waiting } = store.poolCounts();
  page.add('store_connections', 'Connections to the database.', [
    { labels: { state: 'busy' }, value: total - idle },
    { labels: { state: 'idle' }, value: idle },
    { labels: { state: 'wanted' }, value: waiting },
  ]);
  page.add('clock_skew_seconds', 'How far the clock of this machine is behind the database.', [
    { value: store.clock.skewMs / 1000 },
  ]);
}

function addProcess(page: Page): void {
  const { rss, heapUsed } = process.memoryUsage();
  page.add('process_resident_bytes', 'Memory of this server.', [{ value: rss }]);
  page.add('process_heap_bytes', 'JavaScript heap in use.', [{ value: heapUsed }]);
  const { user, system } = process.cpuUsage();
  page.add(
    'process_cpu_seconds_total',
    'CPU time of this server.',
    [{ value: (user + system) / 1e6 }],
    'counter',
  );
}

/** By its name: the class would load the PostgreSQL store into every server. */
const isPostgres = (store: Store): store is PostgresStore => store.engine === 'postgres';
