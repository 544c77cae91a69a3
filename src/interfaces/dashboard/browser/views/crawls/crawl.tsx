// One crawl: progress, what can be done with it, its URLs as a tree, and the chosen page. Other web jobs show their pictures.
import { get, post, Problem } from '../../api.ts';
import { bytes, count } from '../../format.ts';
import { Action } from '../../parts/action.tsx';
import { Back, NotLoaded } from '../../parts/detail.tsx';
import { Facts } from '../../parts/facts.tsx';
import { Json } from '../../parts/json.tsx';
import { ofJob, useLive } from '../../parts/live.ts';
import { useLoaded } from '../../parts/loading.ts';
import { ProblemBox } from '../../parts/problem.tsx';
import { StatusMark } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { go, hrefOf, search } from '../../router.ts';
import { mayRun } from '../../session.ts';
import { isFinal, type Job } from '../../types.ts';
import { Download } from './download.tsx';
import { PagePreview } from './page.tsx';
import { Picture, picturesOf } from './picture.tsx';
import { countsOf, type CrawlInput } from './types.ts';
import { Urls } from './urls.tsx';

const list = { to: '/crawls', label: 'Crawls and pages' };

export function CrawlView({ id }: { id: string }) {
  const { value, error, reload } = useLoaded(id, (signal) =>
    get<Job>(`api/jobs/${encodeURIComponent(id)}`, { includeInput: true }, signal),
  );
  useLive(reload, { isMine: ofJob(id) });
  if (!value) return <NotLoaded {...list} error={error} onRetry={reload} />;
  const isGone = error instanceof Problem && error.status === 404;
  const input = (value.input ?? {}) as CrawlInput;
  const isCrawl = value.kind === 'web' && value.action === 'crawl';
  const title = value.name ?? input.url ?? input.urls?.[0] ?? value.summary ?? id;
  return (
    <section class="view" aria-labelledby="crawl-title">
      <Back {...list} />
      <header class="view-title">
        <StatusMark status={value.status} stage={value.paused === true ? 'paused' : value.stage} />
        <h1 id="crawl-title">{title}</h1>
        {isCrawl && !isGone ? <Actions job={value} input={input} onChanged={reload} /> : null}
      </header>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {isCrawl ? <Crawl job={value} input={input} /> : <OtherJob job={value} />}
    </section>
  );
}

function Crawl({ job, input }: { job: Job; input: CrawlInput }) {
  const counts = countsOf(job);
  const url = search.value.get('url');
  const { done = 0, total = 0 } = (job.progress ?? {}) as { done?: number; total?: number };
  return (
    <>
      <Facts
        facts={[
          ['Pages', count(counts.pages ?? 0)],
          ['Limit', count(input.maxPages ?? 0)],
          counts.bytes === undefined ? undefined : ['Size', bytes(counts.bytes)],
          ['Started', <Time at={job.timings.createdAt} />],
          counts.stopReason === undefined ? undefined : ['Ended because', counts.stopReason],
          input.compareWith === undefined
            ? undefined
            : [
                'Compared with',
                <a href={hrefOf(`/crawls/${input.compareWith}`)}>{input.compareWith}</a>,
              ],
          ['Job', <a href={hrefOf(`/jobs/${job.id}`)}>{job.id}</a>],
        ]}
      />
      {!isFinal(job.status) && total > 0 ? (
        <div class="progress">
          <progress value={done} max={total} aria-label="Pages" /> {count(done)} of {count(total)}
        </div>
      ) : null}
      {job.error ? (
        <p class="job-error">
          <strong>{job.error.message}</strong> {job.error.hint}
        </p>
      ) : null}
      {(counts.warnings ?? []).map((warning) => (
        <p key={warning} class="notice">
          {warning}
        </p>
      ))}
      <div class={url === null ? 'crawl' : 'crawl split'}>
        <Urls job={job} counts={counts} />
        {url === null ? null : <PagePreview key={url} job={job} url={url} input={input} />}
      </div>
    </>
  );
}

function OtherJob({ job }: { job: Job }) {
  const pictures = picturesOf(job.result);
  return (
    <>
      <Facts
        facts={[
          ['Action', job.action ?? '–'],
          ['Started', <Time at={job.timings.createdAt} />],
          ['Job', <a href={hrefOf(`/jobs/${job.id}`)}>{job.id}</a>],
        ]}
      />
      {job.error ? (
        <p class="job-error">
          <strong>{job.error.message}</strong> {job.error.hint}
        </p>
      ) : null}
      {pictures.map((file) => (
        <Picture key={file} jobId={job.id} file={file} />
      ))}
      {job.result === undefined ? null : (
        <div class="panel box">
          <Json value={job.result} />
        </div>
      )}
    </>
  );
}

interface ActionsProps {
  job: Job;
  input: CrawlInput;
  onChanged(): void;
}

function Actions({ job, input, onChanged }: ActionsProps) {
  const isOver = isFinal(job.status);
  const control = async (action: string) => {
    await post(`api/web/crawls/${job.id}/control`, { action });
    onChanged();
  };
  const failed = countsOf(job).outcomes?.errored ?? 0;
  return (
    <div class="actions">
      {mayRun.value && !isOver ? (
        <>
          {job.paused === true ? (
            <Action label="Resume" isPrimary run={() => control('resume')} />
          ) : (
            <Action label="Pause" run={() => control('pause')} />
          )}
          <Action
            label="Cancel"
            run={async () => {
              await post(`api/jobs/${job.id}/cancel`, { reason: 'dashboard' });
              onChanged();
            }}
          />
        </>
      ) : null}
      {mayRun.value && isOver ? (
        <>
          {failed > 0 || job.status !== 'completed' ? (
            <Action label="Retry failed" isPrimary run={() => control('retryFailed')} />
          ) : null}
          <Action
            label="Crawl again and compare"
            run={async () => {
              const { id } = await post<{ id: string }>('api/web/crawls', {
                ...input,
                ...(job.name === undefined ? {} : { name: job.name }),
                compareWith: job.id,
              });
              go(`/crawls/${id}`);
            }}
          />
        </>
      ) : null}
      <Download job={job} input={input} />
    </div>
  );
}
