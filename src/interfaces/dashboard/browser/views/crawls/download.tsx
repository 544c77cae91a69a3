// Downloads the pages of a crawl as one file, read in pieces.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, problemText } from '../../api.ts';
import { count } from '../../format.ts';
import { showToast } from '../../parts/toast.tsx';
import type { Job } from '../../types.ts';
import { outcomes, type CrawlInput, type Page, type PageList } from './types.ts';

type Format = 'json' | 'markdown';

const maxBytes = 1_000_000;

export function Download({ job, input }: { job: Job; input: CrawlInput }) {
  const [done, setDone] = useState<number | undefined>(undefined);
  const abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const start = async (format: Format) => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    setDone(0);
    try {
      const parts = await read(job, input, { format, signal, onProgress: setDone });
      save(new Blob(parts), `${job.name ?? job.id}.${format === 'json' ? 'json' : 'md'}`);
    } catch (error) {
      if (!signal.aborted) showToast(problemText(error), { isError: true });
    }
    setDone(undefined);
  };
  if (done !== undefined)
    return (
      <button type="button" onClick={() => abort.current?.abort()}>
        Stop the download ({count(done)} pages)
      </button>
    );
  return (
    <select
      aria-label="Download"
      value=""
      onChange={({ currentTarget }) => {
        const format = currentTarget.value as Format;
        currentTarget.value = '';
        void start(format);
      }}
    >
      <option value="" disabled>
        Download…
      </option>
      <option value="markdown">Markdown</option>
      <option value="json">JSON</option>
    </select>
  );
}

interface ReadOptions {
  format: Format;
  signal: AbortSignal;
  onProgress(pages: number): void;
}

/** JSON contains every URL with its outcome, Markdown the text of the pages. */
async function read(job: Job, { formats = [], schema }: CrawlInput, options: ReadOptions) {
  const { format, signal, onProgress } = options;
  const isJson = format === 'json';
  const stored = [...formats, ...(schema === undefined ? [] : ['data'])];
  const fields = isJson ? stored.filter((one) => one !== 'screenshot') : ['markdown'];
  const parts: string[] = isJson ? ['{"pages":['] : [];
  let n = 0;
  let cursor: string | undefined;
  do {
    const asked = { fields, maxBytes, cursor, ...(isJson ? { outcomes } : {}) };
    const list = await get<PageList>(`api/web/crawls/${job.id}/pages`, asked, signal);
    for (const page of list.pages) {
      const whole = await wholePage(job, page, fields, signal);
      parts.push(isJson ? `${n > 0 ? ',' : ''}\n${JSON.stringify(whole)}` : markdownOf(whole));
      n++;
    }
    onProgress(n);
    cursor = list.nextCursor;
  } while (cursor !== undefined);
  return isJson ? [...parts, '\n]}\n'] : parts;
}

/** A page that is larger than a response is read in pieces. */
async function wholePage(job: Job, page: Page, fields: string[], signal: AbortSignal) {
  let { nextOffset, markdown = '' } = page;
  while (nextOffset !== undefined) {
    const asked = { url: page.url, offset: nextOffset, fields, maxBytes };
    const [piece] = (await get<PageList>(`api/web/crawls/${job.id}/pages`, asked, signal)).pages;
    markdown += piece?.markdown ?? '';
    nextOffset = piece?.nextOffset;
  }
  const { nextOffset: _, ...rest } = page;
  return page.markdown === undefined ? rest : { ...rest, markdown };
}

const markdownOf = ({ url, title, markdown = '' }: Page): string =>
  `<!-- ${url} -->\n\n${title === undefined || markdown.startsWith('# ') ? '' : `# ${title}\n\n`}${markdown}\n\n---\n\n`;

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name.replaceAll(/[^\w.-]+/g, '-');
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
