// What happened over time, what failed, what waits and why, and how much room is left.
import { useCallback, useMemo } from 'preact/hooks';
import { get, Problem } from '../api.ts';
import { bytes, count, duration, plural } from '../format.ts';
import { Chart } from '../parts/chart.tsx';
import { titleOf } from '../parts/job-rows.tsx';
import { useLive } from '../parts/live.ts';
import { useLoaded } from '../parts/loading.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { StatusMark } from '../parts/status.tsx';
import { Age } from '../parts/time.tsx';
import { hrefOf, search, setSearch } from '../router.ts';
import { mayAdminister } from '../session.ts';
import {
  queuedOf,
  secondsOf,
  stepsOf,
  sumsOf,
  total,
  type CountName,
  type Series,
  type Stats,
} from '../stats.ts';
import type { Job, JobLine } from '../types.ts';
import type { QueueView } from './queues.tsx';

const ranges = [
  ['1h', 3_600_000],
  ['24h', 86_400_000],
  ['7d', 604_800_000],
] as const;
const refreshMs = 5000;
const maxShown = 8;
/** Charts of single queues; the busiest first. */
const maxSeries = 12;

interface ServerView {
  disk: { freeBytes: number; totalBytes: number; databaseBytes: number };
  retention: { maxAgeMs: number; maxCount: number; maxBytes: number };
}

export function OverviewView() {
  const range = search.value.get('range') ?? '1h';
  const rangeMs = ranges.find(([name]) => name === range)?.[1] ?? ranges[0][1];
  const loaded = useLoaded('overview', async (signal) => {
    const read = <T,>(path: string, input = {}) => get<T>(path, input, signal);
    const [failures, waiting, queues, server] = await Promise.all([
      read<{ jobs: JobLine[] }>('api/jobs', { status: ['failed', 'timed_out'], limit: maxShown }),
      read<{ jobs: JobLine[] }>('api/jobs', {
        status: ['queued', 'input_required'],
        limit: maxShown,
      }),
      read<{ queues: QueueView[] }>('api/queues'),
      mayAdminister.value ? read<ServerView>('api/server') : undefined,
    ]);
    const reasons = await Promise.all(
      waiting.jobs.map(({ id }) => read<Job>(`api/jobs/${id}`).catch(() => undefined)),
    );
    return {
      failures: failures.jobs,
      waiting: waiting.jobs,
      reasons,
      queues: queues.queues,
      server,
    };
  });
  const stats = useLoaded(`stats ${rangeMs}`, (signal) =>
    get<Stats>('api/stats', { rangeMs }, signal),
  );
  const reload = useCallback(() => {
    loaded.reload();
    stats.reload();
  }, []);
  useLive(reload, { everyMs: refreshMs });
  // Statistics that this server does not have are left out.
  const isAbsent = stats.error instanceof Problem && stats.error.status === 404;
  const { value, error = isAbsent ? undefined : stats.error } = loaded;
  return (
    <section class="view" aria-labelledby="overview-title">
      <div class="view-head">
        <h1 id="overview-title">Overview</h1>
        <div class="tabs" role="group" aria-label="Time range">
          {ranges.map(([name]) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === range}
              onClick={() => setSearch('range', name)}
            >
              {name}
            </button>
          ))}
        </div>
      </div>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value ? (
        <>
          <Totals stats={stats.value} queues={value.queues} />
          {stats.value ? <Charts stats={stats.value} /> : null}
          <div class="columns">
            <JobBox
              title="Recent failures"
              jobs={value.failures}
              empty="Nothing failed."
              query="status:failed,timed_out"
            />
            <JobBox
              title="Waiting, and why"
              jobs={value.waiting}
              empty="Nothing waits."
              query="status:queued,input_required"
              notes={value.reasons.map((job) => job?.diagnosis ?? waitNote(job))}
            />
          </div>
          {value.server ? <Disk server={value.server} queues={value.queues} /> : null}
        </>
      ) : (
        <div class="loading" aria-busy="true" />
      )}
    </section>
  );
}

function waitNote(job: Job | undefined): string | undefined {
  if (!job) return undefined;
  if (job.after) return `waits for ${plural(job.after.length, 'other job')}`;
  if (typeof job.runAt === 'string') return `starts at ${new Date(job.runAt).toLocaleString()}`;
  return job.stage;
}

function Totals({ stats, queues }: { stats: Stats | undefined; queues: QueueView[] }) {
  const sum = (names: readonly CountName[]) =>
    stats ? total(sumsOf(stats, stats.series, names)) : 0;
  const failed = sum(['failed', 'timedOut']);
  const ended = sum(['completed', 'failed', 'cancelled', 'timedOut']);
  const running = queues.reduce((n, queue) => n + queue.running, 0);
  const waiting = queues.reduce((n, queue) => n + queue.queued, 0);
  const now = [
    ['running now', count(running), 'run', 'status:running'],
    ['waiting now', count(waiting), 'wait', 'status:queued'],
  ] as const;
  const overTime = [
    ['submitted', count(sum(['submitted'])), '', ''],
    ['ended', count(ended), '', 'status:completed,failed,cancelled,timed_out'],
    ['failed', count(failed), failed > 0 ? 'bad' : '', 'status:failed,timed_out'],
    [
      'failure rate',
      ended === 0 ? '–' : `${((failed / ended) * 100).toFixed(1)} %`,
      failed > 0 ? 'bad' : '',
      '',
    ],
  ] as const;
  return (
    <div class="totals">
      {[...now, ...(stats ? overTime : [])].map(([label, value, tone, query]) => (
        <a
          key={label}
          class="panel total"
          href={hrefOf(query === '' ? '/jobs' : `/jobs?q=${encodeURIComponent(query)}`)}
        >
          <span>{label}</span>
          <b class={tone}>{value}</b>
        </a>
      ))}
    </div>
  );
}

function Charts({ stats }: { stats: Stats }) {
  const { steps, byBusy } = useMemo(() => {
    const ended = (series: Series) =>
      total(sumsOf(stats, [series], ['submitted', 'completed', 'failed']));
    return {
      steps: stepsOf(stats),
      byBusy: stats.series.toSorted((a, b) => ended(b) - ended(a)).slice(0, maxSeries),
    };
  }, [stats]);
  const all = stats.series;
  const per = `per ${duration(stats.stepMs)}`;
  const line = (label: string, color: string, names: CountName[], of: Series[] = all) => ({
    label,
    color,
    values: sumsOf(stats, of, names),
  });
  return (
    <>
      <div class="charts">
        <Chart
          title="Throughput"
          note={per}
          steps={steps}
          lines={[
            line('submitted', '--off', ['submitted']),
            line('completed', '--ok', ['completed']),
          ]}
        />
        <Chart
          title="Failures"
          note={per}
          steps={steps}
          isBars
          lines={[line('failed', '--bad', ['failed', 'timedOut'])]}
        />
        <Chart
          title="Waiting"
          note={`most ${per}`}
          steps={steps}
          lines={[{ label: 'queued', color: '--wait', values: queuedOf(stats, all) }]}
        />
      </div>
      {byBusy.map((series) => (
        <section
          key={`${series.kind} ${series.queue}`}
          aria-label={`${series.kind} ${series.queue}`}
        >
          <h2 class="series-title">
            {series.queue} <span class="dim">{series.kind}</span>
          </h2>
          <SeriesCharts stats={stats} series={series} steps={steps} per={per} />
        </section>
      ))}
    </>
  );
}

interface SeriesChartsProps {
  stats: Stats;
  series: Series;
  steps: number[];
  per: string;
}

function SeriesCharts({ stats, series, steps, per }: SeriesChartsProps) {
  const counted = (label: string, color: string, names: CountName[]) => ({
    label,
    color,
    values: sumsOf(stats, [series], names),
  });
  const measured = (name: 'runMs' | 'queuedMs') =>
    (
      [
        ['p50', '--run'],
        ['p95', '--wait'],
      ] as const
    ).map(([label, color]) => ({ label, color, values: secondsOf(stats, series, name, label) }));
  return (
    <div class="charts four">
      <Chart
        title="Ended"
        note={per}
        steps={steps}
        lines={[
          counted('completed', '--ok', ['completed']),
          counted('failed', '--bad', ['failed', 'timedOut']),
        ]}
      />
      <Chart
        title="Waiting"
        note={`most ${per}`}
        steps={steps}
        lines={[{ label: 'queued', color: '--wait', values: queuedOf(stats, [series]) }]}
      />
      <Chart title="Run time" note="" unit="seconds" steps={steps} lines={measured('runMs')} />
      <Chart
        title="Time in the queue"
        note=""
        unit="seconds"
        steps={steps}
        lines={measured('queuedMs')}
      />
    </div>
  );
}

interface JobBoxProps {
  title: string;
  jobs: JobLine[];
  empty: string;
  query: string;
  notes?: (string | undefined)[];
}

function JobBox({ title, jobs, empty, query, notes = [] }: JobBoxProps) {
  return (
    <section class="panel box">
      <h2>
        <a href={hrefOf(`/jobs?q=${encodeURIComponent(query)}`)}>{title}</a>
      </h2>
      {jobs.length === 0 ? <p class="dim">{empty}</p> : null}
      <ul class="job-links">
        {jobs.map((job, i) => (
          <li key={job.id}>
            <StatusMark status={job.status} stage={job.stage} exitCode={job.exitCode} />
            <span class="link-text">
              <a href={hrefOf(`/jobs/${job.id}`)}>{titleOf(job)}</a>
              {notes[i] === undefined ? null : <small>{notes[i]}</small>}
            </span>
            <span class="dim mono">
              <Age at={job.updatedAt ?? job.createdAt} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Disk({ server, queues }: { server: ServerView; queues: QueueView[] }) {
  const { disk, retention } = server;
  const ended = queues.reduce((n, queue) => n + queue.ended, 0);
  return (
    <section class="panel box">
      <h2>Disk and limits</h2>
      <dl class="facts">
        <div>
          <dt>Free</dt>
          <dd>
            {bytes(disk.freeBytes)} of {bytes(disk.totalBytes)}
          </dd>
        </div>
        <div>
          <dt>Database</dt>
          <dd>{bytes(disk.databaseBytes)}</dd>
        </div>
        <div>
          <dt>Ended jobs</dt>
          <dd>
            {count(ended)} of at most {count(retention.maxCount)}
          </dd>
        </div>
        <div>
          <dt>Kept for</dt>
          <dd>{duration(retention.maxAgeMs)}</dd>
        </div>
        <div>
          <dt>Database and output</dt>
          <dd>at most {bytes(retention.maxBytes)}</dd>
        </div>
      </dl>
    </section>
  );
}
