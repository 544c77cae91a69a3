// One job: what, where and by whom; how it went; what can be done with it; what it printed and returned.
import { useEffect, useState } from 'preact/hooks';
import { get, Problem } from '../api.ts';
import { bytes } from '../format.ts';
import { lazy } from '../lazy.tsx';
import { JobHead } from '../parts/job-head.tsx';
import { Json } from '../parts/json.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Output } from '../parts/output.tsx';
import { ProblemBox } from '../parts/problem.tsx';
import { Related } from '../parts/related.tsx';
import { Time } from '../parts/time.tsx';
import { Timeline } from '../parts/timeline.tsx';
import { hrefOf, search, setSearch } from '../router.ts';
import { mayRun } from '../session.ts';
import { onChanges } from '../stream/client.ts';
import { isFinal, type Job, type JobEvent } from '../types.ts';

const Terminal = lazy(async () => (await import('../parts/terminal.tsx')).Terminal);
/** Several events of one moment cause one read. */
const settleMs = 120;

export function JobView({ id, isPane }: { id: string; isPane: boolean }) {
  const path = `api/jobs/${encodeURIComponent(id)}`;
  const loaded = useLoaded(id, async (signal) => {
    const [job, { events }] = await Promise.all([
      get<Job>(path, { includeInput: true, includeAttempts: true }, signal),
      get<{ events: JobEvent[] }>(`${path}/events`, { limit: 1000 }, signal),
    ]);
    return { job, events };
  });
  const [isDeleted, setDeleted] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const off = onChanges((changes) => {
      if (changes.some((change) => 'removed' in change && change.removed === id)) setDeleted(true);
      const isMine = changes.some(
        (change) => 'reset' in change || ('event' in change && change.event.jobId === id),
      );
      if (isMine) {
        clearTimeout(timer);
        timer = setTimeout(loaded.reload, settleMs);
      }
    });
    return () => {
      off();
      clearTimeout(timer);
    };
  }, [id]);
  const { value, error } = loaded;
  useEffect(() => {
    if (value)
      document.title = `${value.job.status} · ${value.job.name ?? value.job.summary ?? id} · Errand`;
    return () => void (document.title = 'Errand');
  }, [value?.job.status, id]);
  if (!value)
    return (
      <section class="job-pane" aria-busy={error === undefined}>
        {error === undefined ? null : <NotShown error={error} id={id} onRetry={loaded.reload} />}
      </section>
    );
  const isGone = isDeleted || (error instanceof Problem && error.status === 404);
  return (
    <section class="job-pane" aria-label="Job">
      <JobHead {...value} isPane={isPane} isGone={isGone} onChanged={loaded.reload} />
      {isGone ? (
        <p class="notice" role="status">
          This job was deleted. What you see is what was loaded before.
        </p>
      ) : null}
      <JobBody {...value} />
    </section>
  );
}

function NotShown({ error, id, onRetry }: { error: unknown; id: string; onRetry(): void }) {
  const isUnknown = error instanceof Problem && error.status === 404;
  if (!isUnknown) return <ProblemBox error={error} onRetry={onRetry} />;
  return (
    <div class="empty">
      <h2>This job does not exist</h2>
      <p>
        <code>{id}</code> was deleted, or it belongs to somebody else.
      </p>
      <p>
        <a class="button" href={hrefOf('/jobs')}>
          Show all jobs
        </a>
      </p>
    </div>
  );
}

const tabNames = {
  terminal: 'Terminal',
  output: 'Output',
  result: 'Result',
  input: 'Input',
  events: 'Events',
  related: 'Related',
};
type TabName = keyof typeof tabNames;

function JobBody({ job, events }: { job: Job; events: JobEvent[] }) {
  const [attempt, setAttempt] = useState<number | undefined>(undefined);
  const names = tabsOf(job);
  const wanted = search.value.get('tab') as TabName | null;
  const chosen = wanted !== null && names.includes(wanted) ? wanted : names[0]!;
  const showAttempt = (number: number) => {
    setAttempt(number === job.attempts.number ? undefined : number);
    if (names.includes('output')) setSearch('tab', 'output');
  };
  return (
    <>
      <Timeline job={job} events={events} onAttempt={showAttempt} />
      <div
        class="job-tabs"
        role="tablist"
        aria-label="Parts of the job"
        onKeyDown={(event) => {
          const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
          if (step === 0) return;
          const next = names[(names.indexOf(chosen) + step + names.length) % names.length]!;
          setSearch('tab', next);
          document.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
        }}
      >
        {names.map((name) => (
          <button
            key={name}
            id={`tab-${name}`}
            type="button"
            role="tab"
            aria-selected={name === chosen}
            aria-controls="job-part"
            tabIndex={name === chosen ? 0 : -1}
            onClick={() => setSearch('tab', name)}
          >
            {tabNames[name]}
          </button>
        ))}
        {attempt === undefined ? null : (
          <span class="attempt-note">
            Attempt {attempt}{' '}
            <button type="button" class="link" onClick={() => setAttempt(undefined)}>
              show the last
            </button>
          </span>
        )}
      </div>
      <div
        id="job-part"
        class={`job-part ${chosen}`}
        role="tabpanel"
        aria-labelledby={`tab-${chosen}`}
      >
        {chosen === 'terminal' ? <Terminal job={job} /> : null}
        {chosen === 'output' ? <Output job={job} attempt={attempt} /> : null}
        {chosen === 'result' ? <Result job={job} /> : null}
        {chosen === 'input' ? <Json value={job.input} /> : null}
        {chosen === 'events' ? <Events events={events} /> : null}
        {chosen === 'related' ? <Related job={job} /> : null}
      </div>
    </>
  );
}

function tabsOf(job: Job): TabName[] {
  const input = (job.input ?? {}) as { tty?: unknown; stdin?: string };
  const isInteractive =
    job.kind === 'command' && (input.tty !== undefined || input.stdin === 'open');
  const hasOutput = job.kind === 'command' || job.kind === 'endpoint';
  return [
    ...(isInteractive && mayRun.value ? (['terminal'] as const) : []),
    ...(hasOutput ? (['output'] as const) : []),
    ...(job.result !== undefined || job.resultOmitted !== undefined || !hasOutput
      ? (['result'] as const)
      : []),
    'input',
    'events',
    'related',
  ];
}

function Result({ job }: { job: Job }) {
  const [isFull, setFull] = useState(false);
  const full = useLoaded(`${job.id} ${isFull}`, async (signal) =>
    isFull ? get<Job>(`api/jobs/${job.id}`, { includeResult: true }, signal) : undefined,
  );
  const value = full.value?.result ?? job.result;
  if (value !== undefined) return <Json value={value} />;
  if (job.resultOmitted)
    return (
      <p class="part-note">
        The result has {bytes(job.resultOmitted.bytes)}.{' '}
        <button type="button" onClick={() => setFull(true)} disabled={full.isLoading}>
          Load it
        </button>
      </p>
    );
  return (
    <p class="part-note">
      {isFinal(job.status) ? 'This job returned no result.' : 'No result yet.'}
    </p>
  );
}

/** The message of an error, and other values with their names. */
function dataText(data: Record<string, unknown>): string {
  return Object.entries(data)
    .map(([name, value]) => {
      const { message } = (name === 'error' && value ? value : {}) as { message?: unknown };
      if (typeof message === 'string') return message;
      return `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`;
    })
    .join(' · ');
}

function Events({ events }: { events: JobEvent[] }) {
  return (
    <div class="table-scroll">
      <table class="plain-table">
        <caption class="off-screen">Events</caption>
        <thead>
          <tr>
            <th scope="col">#</th>
            <th scope="col">Time</th>
            <th scope="col">Event</th>
            <th scope="col">Data</th>
          </tr>
        </thead>
        <tbody>
          {events.map(({ n, at, type, data }) => (
            <tr key={n}>
              <td class="mono">{n}</td>
              <td>
                <Time at={at} />
              </td>
              <td>{type}</td>
              <td class="data">{dataText(data)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
