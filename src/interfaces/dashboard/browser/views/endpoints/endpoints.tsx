// Endpoints: the list, or one of them.
import { get } from '../../api.ts';
import { count } from '../../format.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ofKind, useLive } from '../../parts/live.ts';
import { Command } from '../../parts/copy.tsx';
import { ProblemBox } from '../../parts/problem.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { hrefOf } from '../../router.ts';
import type { Queue } from '../../types.ts';
import { EndpointView } from './endpoint.tsx';
import { EndpointMark } from './mark.tsx';
import { recipeText, type Endpoint } from './types.ts';

/** Workers have no events. */
const pollMs = 2000;

type Row = Endpoint & { isPaused: boolean };

export function EndpointsView({ id }: { id: string | undefined }) {
  return id === undefined ? <List /> : <EndpointView key={id} id={id} />;
}

function List() {
  const { value, error, reload } = useLoaded('endpoints', async (signal) => {
    const [{ endpoints }, { queues }] = await Promise.all([
      get<{ endpoints: Endpoint[] }>('api/endpoints', { limit: 1000 }, signal),
      get<{ queues: Queue[] }>('api/queues', { kind: 'endpoint' }, signal),
    ]);
    const paused = new Set(queues.filter((queue) => queue.paused).map(({ name }) => name));
    return endpoints.map((one): Row => ({ ...one, isPaused: paused.has(one.id) }));
  });
  useLive(reload, { isMine: ofKind('endpoint'), pollMs });
  return (
    <section class="view" aria-labelledby="endpoints-title">
      <h1 id="endpoints-title">Endpoints</h1>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value?.length === 0 ? (
        <div class="empty">
          <h2>No endpoints yet</h2>
          <p>An endpoint runs your handler for each job, with workers that start on demand.</p>
          <Command text={`errand endpoint save hello --recipe '{"module": "./handler.ts"}'`} />
        </div>
      ) : null}
      {value && value.length > 0 ? (
        <Table caption="Endpoints" rows={value} columns={columns} keyOf={({ id }) => id} />
      ) : null}
    </section>
  );
}

const columns: Column<Row>[] = [
  {
    title: 'Endpoint',
    cell: (one) => (
      <>
        <a href={hrefOf(`/endpoints/${encodeURIComponent(one.id)}`)}>{one.spec.name ?? one.id}</a>
        <small class="below clip">{recipeText(one)}</small>
      </>
    ),
  },
  {
    title: 'State',
    class: 'data',
    cell: (one) => (
      <>
        <EndpointMark endpoint={one} isPaused={one.isPaused} />
        {one.trouble === undefined ? null : <small class="below">{one.trouble}</small>}
      </>
    ),
  },
  { title: 'Waiting', class: 'n', cell: ({ health }) => count(health.jobs.inQueue ?? 0) },
  { title: 'Running', class: 'n', cell: ({ health }) => count(health.jobs.inProgress ?? 0) },
  {
    title: 'Workers',
    class: 'n',
    cell: ({ health, spec }) => `${health.workers.ready ?? 0} of ${spec.maxWorkers}`,
  },
  { title: 'Done', class: 'n', cell: ({ health }) => count(health.jobs.completed ?? 0) },
  { title: 'Failed', class: 'n', cell: ({ health }) => count(health.jobs.failed ?? 0) },
  { title: 'Version', class: 'n', cell: ({ version }) => version },
];
