// What a monitoring system wants to know, as Prometheus text: jobs per queue and state, nodes, connections, this process.
import type { ServerResponse } from 'node:http';
import type { App } from './app.ts';
import { counterScope } from './jobs/intents.ts';
import { PostgresStore } from './store/postgres/postgres.ts';

interface Sample {
  labels?: Record<string, string>;
  value: number;
}

export async function answerMetrics(app: App, response: ServerResponse): Promise<void> {
  const text = await metricsText(app);
  response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(text);
}

async function metricsText(app: App): Promise<string> {
  const { jobs, store, runner, cluster } = app;
  const lines: string[] = [];
  const add = (name: string, help: string, samples: readonly Sample[], type = 'gauge') => {
    lines.push(`# HELP errand_${name} ${help}`, `# TYPE errand_${name} ${type}`);
    for (const { labels = {}, value } of samples) {
      const pairs = Object.entries(labels).map(([key, text]) => `${key}=${JSON.stringify(text)}`);
      lines.push(`errand_${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}`);
    }
  };
  const counts: Sample[] = [];
  for (const { kind, name } of await jobs.ledger.queues()) {
    for (const [status, value] of Object.entries(await store.counters(counterScope(kind, name))))
      counts.push({ labels: { kind, queue: name, status }, value });
  }
  add('jobs', 'Jobs kept, by queue and status.', counts);
  add('attempts_running', 'Attempts that run on this node.', [{ value: runner.activeCount() }]);
  const nodes = await cluster.nodes.rows.list();
  add('nodes', 'Nodes by state.', [
    ...['active', 'cordoned', 'draining'].map((state) => ({
      labels: { state },
      value: nodes.filter((node) => node.state === state && cluster.nodes.isAlive(node)).length,
    })),
    {
      labels: { state: 'gone' },
      value: nodes.filter((node) => !cluster.nodes.isAlive(node)).length,
    },
  ]);
  add('event_cursor', 'Newest event.', [{ value: await store.eventCursor() }], 'counter');
  add('store_bytes', 'Bytes of live rows.', [{ value: await store.size() }]);
  if (store instanceof PostgresStore) {
    const { total, idle, waiting } = store.poolCounts();
    add('store_connections', 'Connections to the database.', [
      { labels: { state: 'busy' }, value: total - idle },
      { labels: { state: 'idle' }, value: idle },
      { labels: { state: 'wanted' }, value: waiting },
    ]);
    add('clock_skew_seconds', 'How far the clock of this machine is behind the database.', [
      { value: store.clock.skewMs / 1000 },
    ]);
  }
  const { rss, heapUsed } = process.memoryUsage();
  add('process_resident_bytes', 'Memory of this server.', [{ value: rss }]);
  add('process_heap_bytes', 'JavaScript heap in use.', [{ value: heapUsed }]);
  const { user, system } = process.cpuUsage();
  add(
    'process_cpu_seconds',
    'CPU time of this server.',
    [{ value: (user + system) / 1e6 }],
    'counter',
  );
  return `${lines.join('\n')}\n`;
}
