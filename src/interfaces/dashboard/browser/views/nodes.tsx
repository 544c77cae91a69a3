// The servers that share the store: capacity, labels, and taking one out of service.
import { get, post, remove } from '../api.ts';
import { count } from '../format.ts';
import { Action } from '../parts/action.tsx';
import { useLive } from '../parts/live.ts';
import { useLoaded } from '../parts/loading.ts';
import { Mark, type Tone } from '../parts/mark.tsx';
import { ProblemBox } from '../parts/problem.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Age } from '../parts/time.tsx';
import { mayAdminister } from '../session.ts';

interface NodeRow {
  id: string;
  name: string;
  alive: boolean;
  state: 'active' | 'cordoned' | 'draining';
  here: boolean;
  labels: string[];
  capacity: Record<string, number>;
  running: number;
  version: string;
  url?: string;
  seenAt: string;
}

/** Nodes have no events. */
const pollMs = 2000;

export function NodesView() {
  const { value, error, reload } = useLoaded('nodes', (signal) =>
    get<{ nodes: NodeRow[] }>('api/nodes', {}, signal),
  );
  useLive(reload, { pollMs, everyMs: 1000 });
  return (
    <section class="view" aria-labelledby="nodes-title">
      <h1 id="nodes-title">Nodes</h1>
      <p class="dim">
        A node is one server. Several nodes share one PostgreSQL store. A cordoned or draining node
        takes no new jobs; running jobs continue.
      </p>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value ? (
        <Table
          caption="Nodes"
          rows={value.nodes}
          columns={columnsOf(reload)}
          keyOf={({ id }) => id}
        />
      ) : null}
    </section>
  );
}

function markOf({ alive, state, running }: NodeRow): { tone: Tone; word: string } {
  if (!alive) return { tone: 'bad', word: 'lost' };
  if (state === 'draining')
    return running === 0 ? { tone: 'off', word: 'drained' } : { tone: 'wait', word: 'draining' };
  return state === 'cordoned' ? { tone: 'wait', word: 'cordoned' } : { tone: 'ok', word: 'active' };
}

const columnsOf = (onChanged: () => void): Column<NodeRow>[] => [
  {
    title: 'Node',
    cell: ({ id, name, here, url, version }) => (
      <>
        {name}
        {here ? <span class="tag">this server</span> : null}
        <small class="below mono">{url ?? id}</small>
        <small class="below">Errand {version}</small>
      </>
    ),
  },
  { title: 'State', cell: (node) => <Mark {...markOf(node)} /> },
  { title: 'Running', class: 'n', cell: ({ running }) => count(running) },
  {
    title: 'Capacity',
    class: 'data',
    cell: ({ capacity }) =>
      Object.entries(capacity)
        .filter(([, n]) => n > 0)
        .map(([kind, n]) => `${kind} ${count(n)}`)
        .join(', ') || '–',
  },
  {
    title: 'Labels',
    class: 'labels',
    cell: ({ labels }) =>
      labels.map((label) => (
        <span key={label} class="tag">
          {label}
        </span>
      )),
  },
  {
    title: 'Last seen',
    class: 'n',
    cell: ({ seenAt, alive }) => (alive ? 'now' : <Age at={seenAt} />),
  },
  {
    title: 'Actions',
    isQuiet: true,
    cell: (node) =>
      mayAdminister.value ? <NodeActions node={node} onChanged={onChanged} /> : null,
  },
];

function NodeActions({ node, onChanged }: { node: NodeRow; onChanged(): void }) {
  const path = `api/nodes/${encodeURIComponent(node.id)}`;
  const act = async (name: string) => {
    await post(`${path}/${name}`);
    onChanged();
  };
  if (!node.alive)
    return (
      <Action
        label="Forget…"
        question={{
          title: 'Forget this node?',
          verb: 'Forget',
          isDangerous: true,
          text: (
            <p>
              Output that exists only on <strong>{node.name}</strong> is lost. Do this when the
              machine does not come back.
            </p>
          ),
        }}
        run={async () => {
          await remove(path);
          onChanged();
        }}
      />
    );
  if (node.state !== 'active')
    return <Action label="Put into service" run={() => act('uncordon')} />;
  return (
    <div class="actions">
      <Action label="Cordon" run={() => act('cordon')} />
      <Action label="Drain" run={() => act('drain')} />
    </div>
  );
}
