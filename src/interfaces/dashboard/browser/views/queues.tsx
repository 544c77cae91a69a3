// Queues with their counts; limits and pause for administrators.
import { useState } from 'preact/hooks';
import { get, problemText, put } from '../api.ts';
import { count } from '../format.ts';
import { useLive } from '../parts/live.ts';
import { useLoaded } from '../parts/loading.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { showToast } from '../parts/toast.tsx';
import { quoteValue } from '../query.ts';
import { hrefOf } from '../router.ts';
import { mayAdminister } from '../session.ts';

export interface QueueView {
  kind: string;
  name: string;
  paused: boolean;
  maxConcurrency: number | null;
  queued: number;
  running: number;
  ended: number;
}

const refreshMs = 1000;

export function QueuesView() {
  const loaded = useLoaded('queues', (signal) =>
    get<{ queues: QueueView[] }>('api/queues', {}, signal),
  );
  useLive(loaded.reload, { everyMs: refreshMs });
  const { value, error, reload } = loaded;
  return (
    <section class="view" aria-labelledby="queues-title">
      <h1 id="queues-title">Queues</h1>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value?.queues.length === 0 ? (
        <p class="dim">A queue appears here with its first job.</p>
      ) : (
        <div class="panel table-scroll">
          <table class="plain-table wide">
            <caption class="off-screen">Queues</caption>
            <thead>
              <tr>
                <th scope="col">Queue</th>
                <th scope="col">Kind</th>
                <th scope="col" class="n">
                  Waiting
                </th>
                <th scope="col" class="n">
                  Running
                </th>
                <th scope="col" class="n">
                  Ended
                </th>
                <th scope="col">Limit</th>
                <th scope="col">State</th>
              </tr>
            </thead>
            <tbody>
              {value?.queues.map((queue) => (
                <QueueRow key={`${queue.kind} ${queue.name}`} queue={queue} onChanged={reload} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="dim">
        A limit is the number of jobs that run concurrently. A paused queue starts no further jobs;
        running jobs continue.
      </p>
    </section>
  );
}

function QueueRow({ queue, onChanged }: { queue: QueueView; onChanged(): void }) {
  const [limit, setLimit] = useState<string | undefined>(undefined);
  const set = async (change: { paused: boolean } | { maxConcurrency: number | null }) => {
    try {
      await put(
        `api/queues/${encodeURIComponent(queue.kind)}/${encodeURIComponent(queue.name)}`,
        change,
      );
      setLimit(undefined);
      onChanged();
    } catch (error) {
      showToast(problemText(error), { isError: true });
    }
  };
  const jobs = (status: string) =>
    hrefOf(
      `/jobs?q=${encodeURIComponent(`kind:${queue.kind} queue:${quoteValue(queue.name)} ${status}`.trim())}`,
    );
  return (
    <tr>
      <td>
        <a href={jobs('')}>{queue.name}</a>
      </td>
      <td class="dim">{queue.kind}</td>
      <td class="n">
        <a href={jobs('status:queued')}>{count(queue.queued)}</a>
      </td>
      <td class="n">
        <a href={jobs('status:running')}>{count(queue.running)}</a>
      </td>
      <td class="n">{count(queue.ended)}</td>
      <td>
        {mayAdminister.value ? (
          <form
            class="limit"
            onSubmit={(event) => {
              event.preventDefault();
              if (limit !== undefined)
                void set({ maxConcurrency: limit.trim() === '' ? null : Number(limit) });
            }}
          >
            <input
              type="number"
              min={1}
              aria-label={`Limit of ${queue.name}`}
              placeholder="none"
              value={limit ?? queue.maxConcurrency ?? ''}
              onInput={(event) => setLimit(event.currentTarget.value)}
            />
            <button type="submit" disabled={limit === undefined}>
              Set
            </button>
          </form>
        ) : (
          (queue.maxConcurrency ?? 'none')
        )}
      </td>
      <td>
        <span class={`status ${queue.paused ? 'wait' : 'ok'}`}>
          {queue.paused ? 'paused' : 'open'}
        </span>
        {mayAdminister.value ? (
          <button
            type="button"
            class="row-button"
            onClick={() => void set({ paused: !queue.paused })}
          >
            {queue.paused ? 'Resume' : 'Pause'}
          </button>
        ) : null}
      </td>
    </tr>
  );
}
