// The workers of an endpoint, those that ended last, and the log of one of them.
import { useEffect, useRef, useState } from 'preact/hooks';
import { follow } from '../../follow.ts';
import { duration } from '../../format.ts';
import { Mark, type Tone } from '../../parts/mark.tsx';
import { ProblemBox } from '../../parts/problem.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Age, Time, utcText } from '../../parts/time.tsx';
import { hrefOf, search, setSearch } from '../../router.ts';
import type { EndedWorker, Worker, Workers } from './types.ts';

const maxLines = 5000;
const firstLines = 500;

/** Of equal width, unlike other times. */
const times = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });

interface Line {
  ts: string;
  source: 'container' | 'system';
  line: string;
  jobId?: string;
}

export function WorkersPart(props: { id: string; path: string; workers: Workers }) {
  const { path, workers } = props;
  const known = [...workers.workers, ...workers.ended].map(({ id }) => id);
  const chosen = search.value.get('worker') ?? workers.workers.at(-1)?.id ?? workers.ended[0]?.id;
  return (
    <>
      {workers.workers.length === 0 ? (
        <p class="dim">No worker runs. One is started when a job arrives.</p>
      ) : (
        <Table
          caption="Workers"
          rows={workers.workers}
          columns={columns}
          keyOf={({ id }) => id}
          classOf={({ id }) => (id === chosen ? 'on' : '')}
        />
      )}
      {workers.ended.length === 0 ? null : (
        <details class="folded" open={workers.workers.length === 0}>
          <summary>Workers that ended ({workers.ended.length})</summary>
          <Table
            caption="Workers that ended"
            rows={workers.ended}
            columns={endedColumns}
            keyOf={({ id }) => id}
            classOf={({ id }) => (id === chosen ? 'on' : '')}
          />
        </details>
      )}
      {chosen !== undefined && known.includes(chosen) ? (
        <WorkerLog key={chosen} path={path} workerId={chosen} />
      ) : null}
    </>
  );
}

const tones: Readonly<Record<string, Tone>> = {
  RUNNING: 'run',
  IDLE: 'ok',
  INITIALIZING: 'wait',
  THROTTLED: 'wait',
  UNHEALTHY: 'bad',
};

const words: Readonly<Record<string, string>> = {
  INITIALIZING: 'starting',
  THROTTLED: 'waits for room',
};

const nameCell = ({ id }: { id: string }) => (
  <button type="button" class="link mono" onClick={() => setSearch('worker', id)}>
    {id}
  </button>
);

const startCell = ({ startMs }: { startMs?: number }) => duration(startMs);

const columns: Column<Worker>[] = [
  { title: 'Worker', cell: nameCell },
  {
    title: 'State',
    cell: ({ status, unhealthy }) => (
      <>
        <Mark tone={tones[status] ?? 'off'} word={words[status] ?? status.toLowerCase()} />
        {unhealthy === undefined ? null : <small class="below">{unhealthy}</small>}
      </>
    ),
  },
  {
    title: 'Version',
    cell: ({ version, isStale }) => (
      <>
        {version}
        {isStale ? <span class="tag">old, is replaced</span> : null}
      </>
    ),
  },
  {
    title: 'Jobs',
    cell: ({ jobs }) =>
      jobs.length === 0
        ? '–'
        : jobs.map((id) => (
            <a key={id} class="mono in-row" href={hrefOf(`/jobs/${id}`)}>
              {id}
            </a>
          )),
  },
  { title: 'Cold start', class: 'n', cell: startCell },
  { title: 'Age', class: 'n', cell: ({ startedAt }) => <Age at={startedAt} /> },
];

const endedColumns: Column<EndedWorker>[] = [
  { title: 'Worker', cell: nameCell },
  { title: 'Reason', class: 'data', cell: ({ reason }) => reason ?? '–' },
  {
    title: 'Exit',
    cell: ({ exitCode, exitSignal }) => exitSignal ?? (exitCode === null ? '–' : exitCode),
  },
  { title: 'Cold start', class: 'n', cell: startCell },
  { title: 'Ended', cell: ({ endedAt }) => <Time at={endedAt} /> },
];

function WorkerLog({ path, workerId }: { path: string; workerId: string }) {
  const [source, setSource] = useState('both');
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [state, setState] = useState<'following' | 'ended'>('following');
  const [error, setError] = useState<unknown>(undefined);
  const [isFollowing, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const abort = new AbortController();
    setLines([]);
    setState('following');
    setError(undefined);
    void follow(
      `${path}/log`,
      { workerId, source, tail: firstLines },
      {
        signal: abort.signal,
        onItems: (items) =>
          setLines((before) => [...before, ...(items as Line[])].slice(-maxLines)),
        onEnd: () => setState('ended'),
        onError: setError,
      },
    );
    return () => abort.abort();
  }, [path, workerId, source]);
  useEffect(() => {
    if (isFollowing) box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [lines, isFollowing]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    setFollowing(scrollTop + clientHeight >= scrollHeight - 4);
  };
  return (
    <section class="log" aria-label="Worker log">
      <div class="log-head">
        <h2>
          Log of <code>{workerId}</code>
        </h2>
        <select
          aria-label="Lines"
          value={source}
          onChange={({ currentTarget }) => setSource(currentTarget.value)}
        >
          <option value="both">All lines</option>
          <option value="container">Printed by the worker</option>
          <option value="system">From the server</option>
        </select>
        <span class="dim">
          {state === 'ended' ? 'ended' : isFollowing ? 'following' : 'paused'}
        </span>
        {isFollowing ? null : (
          <button type="button" onClick={() => setFollowing(true)}>
            Follow
          </button>
        )}
      </div>
      {error === undefined ? null : <ProblemBox error={error} />}
      <div class="log-lines" ref={box} tabIndex={0} role="log" aria-live="off" onScroll={onScroll}>
        {lines.length === 0 ? <p class="log-empty">Nothing printed yet.</p> : null}
        {lines.map(({ ts, source: from, line, jobId }, i) => (
          <div key={i} class={`log-line ${from}`}>
            <time dateTime={ts} title={utcText(ts)}>
              {times.format(new Date(ts))}
            </time>
            <span>
              {line}
              {jobId === undefined ? null : (
                <a class="log-job" href={hrefOf(`/jobs/${jobId}`)}>
                  {jobId}
                </a>
              )}
            </span>
          </div>
        ))}
      </div>
    </section>
  );
}
