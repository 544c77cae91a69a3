// Crawls and other web jobs: the list, or one of them.
import { get } from '../../api.ts';
import { Command } from '../../parts/copy.tsx';
import { useLoaded } from '../../parts/loading.ts';
import { ofKind, useLive } from '../../parts/live.ts';
import { ProblemBox } from '../../parts/problem.tsx';
import { StatusMark } from '../../parts/status.tsx';
import { Table, type Column } from '../../parts/table.tsx';
import { Age, RunTime } from '../../parts/time.tsx';
import { hrefOf } from '../../router.ts';
import type { JobLine } from '../../types.ts';
import { CrawlView } from './crawl.tsx';

const shown = 200;

export function CrawlsView({ id }: { id: string | undefined }) {
  return id === undefined ? <List /> : <CrawlView key={id} id={id} />;
}

function List() {
  const { value, error, reload } = useLoaded('crawls', (signal) =>
    get<{ jobs: JobLine[] }>('api/jobs', { kind: 'web', limit: shown }, signal),
  );
  useLive(reload, { isMine: ofKind('web') });
  return (
    <section class="view" aria-labelledby="crawls-title">
      <h1 id="crawls-title">Crawls and pages</h1>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value?.jobs.length === 0 ? (
        <div class="empty">
          <h2>No crawls yet</h2>
          <p>A crawl stores the pages of a site as Markdown and shows the outcome of every URL.</p>
          <Command text="errand crawl https://example.com --max-pages 20" />
        </div>
      ) : null}
      {value && value.jobs.length > 0 ? (
        <Table caption="Web jobs" rows={value.jobs} columns={columns} keyOf={({ id }) => id} />
      ) : null}
    </section>
  );
}

const columns: Column<JobLine>[] = [
  { title: 'Status', cell: ({ status, stage }) => <StatusMark status={status} stage={stage} /> },
  {
    title: 'Job',
    class: 'data',
    cell: ({ id, name, summary }) => (
      <>
        <a href={hrefOf(`/crawls/${id}`)}>{name ?? summary ?? id}</a>
        {name === undefined ? null : <small class="below">{summary}</small>}
      </>
    ),
  },
  {
    title: 'Run',
    class: 'n',
    cell: ({ runMs, status, updatedAt }) =>
      status === 'running' ? <RunTime since={updatedAt} /> : <RunTime ms={runMs} />,
  },
  { title: 'Age', class: 'n', cell: ({ createdAt }) => <Age at={createdAt} /> },
];
