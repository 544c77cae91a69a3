// Every URL of a crawl with its outcome and reason, as a tree by path, with filters.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get } from '../../api.ts';
import { count } from '../../format.ts';
import { ofJob, useLive } from '../../parts/live.ts';
import { useLoaded } from '../../parts/loading.ts';
import { Mark } from '../../parts/mark.tsx';
import { ProblemBox } from '../../parts/problem.tsx';
import { search, setSearch } from '../../router.ts';
import type { Job } from '../../types.ts';
import { nameIn, totalOf, treeOf, type Folder } from './tree.ts';
import { outcomes, outcomeTones, type Counts, type Page, type PageList } from './types.ts';

const pageSize = 500;
const maxBytes = 1_000_000;
const step = 5000;
/** Reading a long list again costs time: it is done less often. */
const calmMs = 10_000;
const liveMs = 1500;
/** A folder with at most this many URLs is open at first. */
const openUrls = 60;

export function Urls({ job, counts }: { job: Job; counts: Counts }) {
  const outcome = search.value.get('outcome') ?? '';
  const change = search.value.get('change') ?? '';
  const [text, setText] = useState('');
  const [limit, setLimit] = useState(step);
  const filter = {
    outcomes: outcome === '' ? outcomes : [outcome],
    ...(change === '' ? {} : { change }),
  };
  const { value, error, reload } = useLoaded(`${job.id} ${outcome} ${change} ${limit}`, (signal) =>
    loadUrls(job.id, filter, limit, signal),
  );
  useEffect(reload, [job.status]);
  useLive(reload, {
    isMine: ofJob(job.id),
    everyMs: (value?.pages.length ?? 0) > 1000 ? calmMs : liveMs,
  });
  const words = text.trim().toLowerCase();
  const pages = useMemo(
    () => (value?.pages ?? []).filter((page) => words === '' || matches(page, words)),
    [value, words],
  );
  const tree = useMemo(() => treeOf(pages), [pages]);
  return (
    <section class="panel urls" aria-label="URLs">
      <div class="urls-head">
        <Choice
          label="Outcome"
          name="outcome"
          chosen={outcome}
          counts={counts.outcomes ?? {}}
          order={outcomes}
        />
        {counts.changes ? (
          <Choice
            label="Change"
            name="change"
            chosen={change}
            counts={counts.changes}
            order={['new', 'changed', 'removed', 'same']}
          />
        ) : null}
        <input
          type="search"
          aria-label="Filter URLs, titles and reasons"
          placeholder="Filter URLs, titles and reasons"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </div>
      {error === undefined ? null : <ProblemBox error={error} onRetry={reload} />}
      {value && pages.length === 0 ? <p class="part-note">No URL matches.</p> : null}
      <ul class="tree">
        {[...tree.folders.values()].map((folder) => (
          <FolderRow key={folder.key} folder={folder} isForced={words !== ''} depth={0} />
        ))}
      </ul>
      {value?.hasMore ? (
        <p class="part-note">
          {count(value.pages.length)} URLs are shown.{' '}
          <button type="button" onClick={() => setLimit(limit + step)}>
            Load more
          </button>
        </p>
      ) : null}
    </section>
  );
}

const matches = ({ url, title = '', reason = '', detail = '' }: Page, words: string): boolean =>
  `${url}\n${title}\n${reason}\n${detail}`.toLowerCase().includes(words);

async function loadUrls(
  id: string,
  filter: Readonly<Record<string, unknown>>,
  limit: number,
  signal: AbortSignal,
): Promise<{ pages: Page[]; hasMore: boolean }> {
  const pages: Page[] = [];
  let cursor: string | undefined;
  do {
    const input = { ...filter, limit: pageSize, maxBytes, cursor };
    const list = await get<PageList>(`api/web/crawls/${id}/pages`, input, signal);
    pages.push(...list.pages);
    cursor = list.nextCursor;
  } while (cursor !== undefined && pages.length < limit);
  return { pages, hasMore: cursor !== undefined };
}

interface ChoiceProps {
  label: string;
  name: string;
  chosen: string;
  counts: Readonly<Record<string, number>>;
  order: readonly string[];
}

function Choice({ label, name, chosen, counts, order }: ChoiceProps) {
  const known = order.filter((one) => (counts[one] ?? 0) > 0 || one === chosen);
  return (
    <div class="choice" role="group" aria-label={label}>
      {['', ...known].map((one) => (
        <button
          key={one}
          type="button"
          aria-pressed={one === chosen}
          onClick={() => setSearch(name, one)}
        >
          {one === '' ? `All` : `${one} ${count(counts[one] ?? 0)}`}
        </button>
      ))}
    </div>
  );
}

interface FolderProps {
  folder: Folder;
  /** All folders are open while a text filter is set. */
  isForced: boolean;
  depth: number;
}

function FolderRow({ folder, isForced, depth }: FolderProps) {
  const total = totalOf(folder);
  const [isOpen, setOpen] = useState<boolean | undefined>(undefined);
  const isShown = isForced || (isOpen ?? (depth === 0 || total <= openUrls));
  const bad = folder.counts.get('errored') ?? 0;
  return (
    <li>
      <button
        type="button"
        class="folder"
        aria-expanded={isShown}
        onClick={() => setOpen(!isShown)}
      >
        <span class="folder-name">{folder.label}</span>
        <span class="dim">{count(total)}</span>
        {bad > 0 ? <span class="bad">{count(bad)} errored</span> : null}
      </button>
      {isShown ? (
        <ul>
          {folder.pages.map((page) => (
            <PageRow key={page.n} page={page} />
          ))}
          {[...folder.folders.values()].map((child) => (
            <FolderRow key={child.key} folder={child} isForced={isForced} depth={depth + 1} />
          ))}
        </ul>
      ) : null}
    </li>
  );
}

function PageRow({ page }: { page: Page }) {
  const { url, outcome, status, title, reason, detail, target, change } = page;
  const isChosen = search.value.get('url') === url;
  const why = [
    status !== undefined && outcome === 'errored' ? String(status) : undefined,
    reason,
    detail,
    target === undefined ? undefined : `→ ${target}`,
  ].filter((part) => part !== undefined);
  return (
    <li>
      <button
        type="button"
        class={isChosen ? 'page-row on' : 'page-row'}
        aria-current={isChosen}
        title={url}
        onClick={() => setSearch('url', isChosen ? undefined : url, { replace: false })}
      >
        <Mark tone={outcomeTones[outcome] ?? 'off'} word={outcome} />
        <span class="page-name">
          <span class="mono">{nameIn(url)}</span> <span class="dim">{title}</span>
          {why.length > 0 ? <small class="why">{why.join(' · ')}</small> : null}
        </span>
        {change === undefined ? null : <span class="tag">{change}</span>}
      </button>
    </li>
  );
}
