// Jobs that this job waits for, its parent and its children.
import { get } from '../api.ts';
import { hrefOf } from '../router.ts';
import type { Job, JobLine } from '../types.ts';
import { titleOf } from './job-rows.tsx';
import { useLoaded } from './loading.ts';
import { ProblemBox } from './problem.tsx';
import { StatusMark } from './status.tsx';

const maxChildren = 100;

export function Related({ job }: { job: Job }) {
  const after = afterOf(job);
  const key = `${job.id} ${job.parentId} ${after.join(' ')}`;
  const { value, error } = useLoaded(key, async (signal) => {
    const one = (id: string) =>
      get<Job>(`api/jobs/${encodeURIComponent(id)}`, {}, signal).then(toLine, () => undefined);
    const [parent, dependencies, { jobs }] = await Promise.all([
      job.parentId === undefined ? undefined : one(job.parentId),
      Promise.all(after.map(one)),
      get<{ jobs: JobLine[] }>('api/jobs', { parent: job.id, limit: maxChildren }, signal),
    ]);
    return {
      parent,
      dependencies: dependencies.filter((line) => line !== undefined),
      children: jobs,
    };
  });
  if (error !== undefined) return <ProblemBox error={error} />;
  if (!value) return <div class="loading" aria-busy="true" />;
  const { parent, dependencies, children } = value;
  if (!parent && dependencies.length === 0 && children.length === 0)
    return <p class="part-note">No other job belongs to this one.</p>;
  return (
    <div class="related">
      {parent ? <JobLinks title="Started by" jobs={[parent]} /> : null}
      <JobLinks title="Waits for" jobs={dependencies} />
      <JobLinks title="Started" jobs={children} />
    </div>
  );
}

function JobLinks({ title, jobs }: { title: string; jobs: readonly JobLine[] }) {
  if (jobs.length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul class="job-links">
        {jobs.map((job) => (
          <li key={job.id}>
            <StatusMark status={job.status} stage={job.stage} exitCode={job.exitCode} />
            <a href={hrefOf(`/jobs/${job.id}`)}>{titleOf(job)}</a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function afterOf({ after, input }: Job): string[] {
  const submitted = (input as { after?: unknown } | undefined)?.after;
  return (
    after ?? (Array.isArray(submitted) ? submitted.filter((id) => typeof id === 'string') : [])
  );
}

function toLine({ id, kind, status, stage, name, summary, exitCode, timings }: Job): JobLine {
  return {
    id,
    kind,
    status,
    createdAt: timings.createdAt,
    ...(stage === undefined ? {} : { stage }),
    ...(name === undefined ? {} : { name }),
    ...(summary === undefined ? {} : { summary }),
    ...(exitCode === undefined ? {} : { exitCode }),
  };
}
