// One endpoint: its queue and timings, why jobs wait, its workers with their log, requests and releases.
import { get, post, put, Problem } from '../../api.ts';
import { count, duration, plural } from '../../format.ts';
import { Action } from '../../parts/action.tsx';
import { Back, NotLoaded } from '../../parts/detail.tsx';
import { Facts, Tiles, type Tile } from '../../parts/facts.tsx';
import { Json } from '../../parts/json.tsx';
import { ofKind, useLive } from '../../parts/live.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ProblemBox } from '../../parts/problem.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { Time } from '../../parts/time.tsx';
import { hrefOf } from '../../router.ts';
import { quoteValue } from '../../query.ts';
import { mayAdminister, mayRun } from '../../session.ts';
import type { Series } from '../../stats.ts';
import type { Job, JobLine, Queue } from '../../types.ts';
import { EndpointMark } from './mark.tsx';
import { Releases } from './releases.tsx';
import { Request } from './request.tsx';
import { recipeText, type Endpoint, type Workers } from './types.ts';
import { WorkersPart } from './workers.tsx';

const pollMs = 2000;
const statsMs = 24 * 3_600_000;

interface Range {
  queuedMs?: { p50: number; p95: number };
  runMs?: { p50: number; p95: number };
}

interface EndpointState {
  endpoint: Endpoint;
  workers: Workers;
  isPaused: boolean;
  range: Range | undefined;
  /** The job that waits the longest, with the reason. */
  waiting: Job | undefined;
}

const list = { to: '/endpoints', label: 'Endpoints' };

export function EndpointView({ id }: { id: string }) {
  const path = `api/endpoints/${encodeURIComponent(id)}`;
  const { value, error, reload } = useLoaded(id, (signal) => loadEndpoint(id, path, signal));
  useLive(reload, { isMine: ofKind('endpoint', id), pollMs });
  if (!value) return <NotLoaded {...list} error={error} onRetry={reload} />;
  const isGone = error instanceof Problem && error.status === 404;
  const { endpoint, isPaused } = value;
  return (
    <section class="view" aria-labelledby="endpoint-title">
      <Back {...list} />
      <header class="view-title">
        <EndpointMark endpoint={endpoint} isPaused={isPaused} />
        <h1 id="endpoint-title">{endpoint.spec.name ?? id}</h1>
        {isGone ? null : <Actions state={value} path={path} onChanged={reload} />}
      </header>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      <Facts
        facts={[
          ['Runs', <code>{recipeText(endpoint)}</code>],
          ['Id', <code>{id}</code>],
          ['Version', String(endpoint.version)],
          ['Workers', `${endpoint.spec.minWorkers} to ${endpoint.spec.maxWorkers}`],
          ['Created', <Time at={endpoint.createdAt} />],
        ]}
      />
      <Reason state={value} />
      <Tiles tiles={tilesOf(value)} />
      <Tabs label="Parts of the endpoint" tabs={tabsOf()}>
        {(tab) => (
          <>
            {tab === 'workers' ? <WorkersPart id={id} path={path} workers={value.workers} /> : null}
            {tab === 'request' ? <Request path={path} /> : null}
            {tab === 'releases' ? <Releases path={path} version={endpoint.version} /> : null}
            {tab === 'settings' ? <Json value={endpoint.spec} /> : null}
          </>
        )}
      </Tabs>
    </section>
  );
}

const tabsOf = () => ({
  workers: 'Workers',
  ...(mayRun.value ? { request: 'Request' } : {}),
  releases: 'Releases',
  settings: 'Settings',
});

async function loadEndpoint(id: string, path: string, signal: AbortSignal): Promise<EndpointState> {
  const ofQueue = { kind: 'endpoint', queue: id };
  const [endpoint, workers, { queues }, { series }, { jobs }] = await Promise.all([
    get<Endpoint>(path, {}, signal),
    get<Workers>(`${path}/workers`, {}, signal),
    get<{ queues: Queue[] }>('api/queues', { kind: 'endpoint' }, signal),
    get<{ series: (Series & Range)[] }>('api/stats', { ...ofQueue, rangeMs: statsMs }, signal),
    get<{ jobs: JobLine[] }>(
      'api/jobs',
      { ...ofQueue, status: ['queued'], sort: 'created-asc', limit: 1 },
      signal,
    ),
  ]);
  const first = jobs[0];
  return {
    endpoint,
    workers,
    isPaused: queues.some((queue) => queue.name === id && queue.paused),
    range: series[0],
    waiting: first
      ? await get<Job>(`api/jobs/${first.id}`, {}, signal).catch(() => undefined)
      : undefined,
  };
}

/** Why the oldest job waits, or why workers do not start. */
function Reason({ state: { endpoint, waiting } }: { state: EndpointState }) {
  const reason = waiting?.diagnosis ?? endpoint.trouble;
  if (reason === undefined) return null;
  return (
    <div class="panel reason" role="status">
      <p>{reason}</p>
      {waiting ? (
        <p class="dim">
          The oldest waiting job is <a href={hrefOf(`/jobs/${waiting.id}`)}>{waiting.id}</a>, since{' '}
          <Time at={waiting.timings.createdAt} />.
        </p>
      ) : null}
    </div>
  );
}

function tilesOf({ endpoint, workers, range }: EndpointState): Tile[] {
  const { health, id } = endpoint;
  const jobs = (status: string) =>
    hrefOf(
      `/jobs?q=${encodeURIComponent(`kind:endpoint queue:${quoteValue(id)} status:${status}`)}`,
    );
  const { ready = 0, initializing = 0, unhealthy = 0 } = health.workers;
  const pair = (times: { p50: number; p95: number } | undefined) => ({
    value: times ? duration(times.p50) : '–',
    note: times ? `95 %: ${duration(times.p95)}` : 'no jobs in 24 h',
  });
  const { starts } = workers;
  return [
    { label: 'Waiting', value: count(health.jobs.inQueue ?? 0), href: jobs('queued') },
    { label: 'Running', value: count(health.jobs.inProgress ?? 0), href: jobs('running') },
    { label: 'Done', value: count(health.jobs.completed ?? 0), href: jobs('completed') },
    {
      label: 'Failed',
      value: count(health.jobs.failed ?? 0),
      href: jobs('failed,timed_out'),
      tone: (health.jobs.failed ?? 0) > 0 ? 'bad' : undefined,
    },
    {
      label: 'Workers ready',
      value: count(ready),
      note: `${initializing} starting, ${unhealthy} unhealthy`,
      tone: unhealthy > 0 ? 'bad' : undefined,
    },
    { label: 'Delay, median', ...pair(range?.queuedMs) },
    { label: 'Run time, median', ...pair(range?.runMs) },
    {
      label: 'Cold start, median',
      value: starts ? duration(starts.p50Ms) : '–',
      note: starts
        ? `95 %: ${duration(starts.p95Ms)} (${plural(starts.count, 'start')})`
        : 'no starts yet',
    },
  ];
}

interface ActionsProps {
  state: EndpointState;
  path: string;
  onChanged(): void;
}

function Actions({ state: { endpoint, isPaused }, path, onChanged }: ActionsProps) {
  const waiting = endpoint.health.jobs.inQueue ?? 0;
  return (
    <div class="actions">
      {mayAdminister.value ? (
        <Action
          label={isPaused ? 'Resume' : 'Pause'}
          run={async () => {
            await put(`api/queues/endpoint/${encodeURIComponent(endpoint.id)}`, {
              paused: !isPaused,
            });
            onChanged();
            return isPaused ? 'Waiting jobs start again.' : 'No further job starts.';
          }}
        />
      ) : null}
      {mayRun.value ? (
        <Action
          label="Purge…"
          isDisabled={waiting === 0}
          question={{
            title: 'Cancel all waiting jobs?',
            verb: 'Cancel them',
            isDangerous: true,
            text: (
              <p>
                {plural(waiting, 'job')} of <strong>{endpoint.id}</strong> will never run. Running
                jobs continue.
              </p>
            ),
          }}
          run={async () => {
            const { removed } = await post<{ removed: number }>(`${path}/purge`);
            onChanged();
            return `${plural(removed, 'job')} cancelled.`;
          }}
        />
      ) : null}
    </div>
  );
}
