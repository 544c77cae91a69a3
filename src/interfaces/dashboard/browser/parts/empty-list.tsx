// What an empty list says: how to start a first job, or that the filter hides everything.
import { hrefOf } from '../router.ts';
import { Command } from './copy.tsx';

export function EmptyList({ isFiltered, query }: { isFiltered: boolean; query: string }) {
  if (isFiltered)
    return (
      <div class="empty">
        <h2>No job matches</h2>
        <p>
          Nothing matches <code>{query}</code>. New jobs that match are announced here.
        </p>
        <p>
          <a class="button" href={hrefOf('/jobs')}>
            Show all jobs
          </a>
        </p>
      </div>
    );
  return (
    <div class="empty">
      <h2>No jobs yet</h2>
      <p>Paste this into a terminal. The job appears here while it runs.</p>
      <Command text="errand run --name hello --shell 'for i in 1 2 3 4 5; do echo step $i; sleep 1; done'" />
      <p>
        Or <a href={hrefOf('/connect')}>connect your agent</a>, and watch what it starts.
      </p>
    </div>
  );
}
