// One page of a crawl: why it has its outcome, its text, what changed, its picture.
import { useState } from 'preact/hooks';
import { get } from '../../api.ts';
import { bytes } from '../../format.ts';
import { CopyButton } from '../../parts/copy.tsx';
import { Facts } from '../../parts/facts.tsx';
import { Json } from '../../parts/json.tsx';
import { useLoaded } from '../../parts/loading.ts';
import { Mark } from '../../parts/mark.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { ProblemBox } from '../../parts/problem.tsx';
import { Time } from '../../parts/time.tsx';
import { setSearch } from '../../router.ts';
import type { Job } from '../../types.ts';
import { fileIn, Picture } from './picture.tsx';
import { outcomeTones, type CrawlInput, type Page, type PageList } from './types.ts';

const maxBytes = 300_000;

interface PreviewProps {
  job: Job;
  url: string;
  input: CrawlInput;
}

export function PagePreview({ job, url, input }: PreviewProps) {
  const fields = fieldsOf(input);
  const [isDiff, setDiff] = useState(input.compareWith !== undefined);
  const { value, error, reload } = useLoaded(`${job.id} ${url} ${job.status}`, async (signal) => {
    const asked = { url, fields, maxBytes };
    return (await get<PageList>(`api/web/crawls/${job.id}/pages`, asked, signal)).pages[0];
  });
  return (
    <section class="panel preview" aria-label="Page">
      <header class="preview-head">
        <h2>{value?.title ?? url}</h2>
        <button type="button" class="quiet" onClick={() => setSearch('url', undefined)}>
          Close
        </button>
      </header>
      <a class="page-url" href={safeUrl(url)} target="_blank" rel="noopener noreferrer nofollow">
        {url}
      </a>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value ? (
        <>
          <PageFacts page={value} />
          {value.diff === undefined ? null : (
            <div class="choice" role="group" aria-label="Show">
              <button type="button" aria-pressed={isDiff} onClick={() => setDiff(true)}>
                Changes
              </button>
              <button type="button" aria-pressed={!isDiff} onClick={() => setDiff(false)}>
                Page
              </button>
            </div>
          )}
          {isDiff && value.diff !== undefined ? <Diff text={value.diff} /> : <Body {...value} />}
          {value.screenshot === undefined ? null : (
            <Picture jobId={job.id} file={fileIn(value.screenshot)} />
          )}
          {value.data === undefined ? null : <Json value={value.data} />}
        </>
      ) : null}
    </section>
  );
}

/** Only what the crawl stores. */
function fieldsOf({ formats = ['markdown'], schema, compareWith }: CrawlInput): string[] {
  return [
    ...formats.filter((format) => format === 'markdown' || format === 'screenshot'),
    ...(schema === undefined ? [] : ['data']),
    ...(compareWith === undefined ? [] : ['diff']),
  ];
}

const safeUrl = (url: string): string | undefined => (/^https?:\/\//i.test(url) ? url : undefined);

function PageFacts({ page }: { page: Page }) {
  const { outcome, status, reason, detail, type, depth, via, from, target, change, at } = page;
  const known = (label: string, value: string | number | undefined) =>
    value === undefined ? undefined : ([label, String(value)] as const);
  return (
    <Facts
      facts={[
        ['Outcome', <Mark tone={outcomeTones[outcome] ?? 'off'} word={outcome} />],
        known('Reason', reason),
        known('Detail', detail),
        known('Status', status),
        known('Type', type),
        page.bytes === undefined ? undefined : ['Size', bytes(page.bytes)],
        known('Clicks from start', depth),
        known('Found by', via),
        known('Redirected from', from),
        known('Redirects to', target),
        known('Change', change),
        at === undefined ? undefined : ['Fetched', <Time at={at} />],
      ]}
    />
  );
}

function Body({ markdown, nextOffset }: Page) {
  if (markdown === undefined || markdown === '')
    return <p class="dim">No text is stored for this URL.</p>;
  return (
    <>
      <CopyButton text={markdown} label="Copy as Markdown" class="copy-body" />
      <Markdown text={markdown} />
      {nextOffset === undefined ? null : (
        <p class="dim">The page is longer. Download the crawl to read all of it.</p>
      )}
    </>
  );
}

function Diff({ text }: { text: string }) {
  return (
    <pre class="diff" tabIndex={0} aria-label="Changes">
      {text.split('\n').map((line, i) => (
        <span
          key={i}
          class={line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : ''}
        >
          {`${line}\n`}
        </span>
      ))}
    </pre>
  );
}
