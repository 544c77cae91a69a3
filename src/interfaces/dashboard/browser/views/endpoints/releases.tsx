// The versions of an endpoint, with what changed and how many workers run each.
import { get } from '../../api.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ProblemBox } from '../../parts/problem.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';

interface Release {
  version: number;
  by: string;
  workers: number;
  createdAt: string;
  diff: { field: string; old: unknown; new: unknown }[];
}

interface ReleaseList {
  version: number;
  workers: number;
  workersOnLatest: number;
  releases: Release[];
}

export function Releases({ path, version }: { path: string; version: number }) {
  const { value, error, reload } = useLoaded(`${path} ${version}`, (signal) =>
    get<ReleaseList>(`${path}/releases`, {}, signal),
  );
  return (
    <>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value ? (
        <>
          <p class="dim">
            {value.workers === 0
              ? 'No worker runs now.'
              : value.workers === value.workersOnLatest
                ? `All workers run version ${value.version}.`
                : `${value.workersOnLatest} of ${value.workers} workers run version ${value.version}.`}
          </p>
          <Table
            caption="Releases"
            rows={value.releases}
            columns={columns}
            keyOf={(release) => release.version}
          />
        </>
      ) : null}
    </>
  );
}

const columns: Column<Release>[] = [
  { title: 'Version', cell: ({ version }) => version },
  { title: 'Workers', class: 'n', cell: ({ workers }) => workers },
  {
    title: 'Changes',
    class: 'data',
    cell: ({ diff }) =>
      diff.length === 0
        ? 'created'
        : diff.map((change) => (
            <div key={change.field}>
              <b>{change.field}</b>{' '}
              <code>
                {text(change.old)} → {text(change.new)}
              </code>
            </div>
          )),
  },
  { title: 'By', cell: ({ by }) => by },
  { title: 'Time', cell: ({ createdAt }) => <Time at={createdAt} /> },
];

const text = (value: unknown): string => (value === undefined ? '–' : JSON.stringify(value));
