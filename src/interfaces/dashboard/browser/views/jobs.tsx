// The list of jobs, and next to it the chosen job when there is room.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { bulkWords, type BulkAction, type BulkTarget } from '../bulk.ts';
import { count, plural } from '../format.ts';
import { JobList, maxFresh } from '../job-list.ts';
import { useKeys } from '../keys.ts';
import { BulkDialog } from '../parts/bulk-dialog.tsx';
import { EmptyList } from '../parts/empty-list.tsx';
import { FilterBar } from '../parts/filter-bar.tsx';
import { JobRows } from '../parts/job-rows.tsx';
import { useMedia } from '../parts/media.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { StatusTabs } from '../parts/status-tabs.tsx';
import { inputOf } from '../query.ts';
import { go, search, setSearch } from '../router.ts';
import { mayRun } from '../session.ts';
import { JobView } from './job.tsx';

const actions: BulkAction[] = ['cancel', 'retry', 'pin', 'delete'];
const sorts = [
  ['', 'Newest first'],
  ['created-asc', 'Oldest first'],
  ['ended-desc', 'Last ended'],
  ['duration-desc', 'Longest run'],
  ['duration-asc', 'Shortest run'],
] as const;

export function JobsView({ id }: { id: string | undefined }) {
  const query = search.value.get('q') ?? '';
  const sort = search.value.get('sort') ?? '';
  const list = useMemo(() => new JobList(query, sort), [query, sort]);
  useEffect(() => () => list.close(), [list]);
  const isWide = useMedia('(min-width: 1180px)');
  const isListShown = id === undefined || isWide;
  return (
    <div class={id === undefined ? 'jobs' : 'jobs split'}>
      {isListShown ? <ListPane list={list} query={query} sort={sort} id={id} /> : null}
      {id === undefined ? null : <JobView key={id} id={id} isPane={isWide} />}
    </div>
  );
}

interface ListPaneProps {
  list: JobList;
  query: string;
  sort: string;
  id: string | undefined;
}

/** The selected rows, or everything that matches the filter. Another list starts with none. */
function useSelection(list: unknown) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isEverything, setEverything] = useState(false);
  const clear = () => {
    setSelected(new Set());
    setEverything(false);
  };
  useEffect(clear, [list]);
  return { selected, setSelected, isEverything, setEverything, clear };
}

function ListPane({ list, query, sort, id }: ListPaneProps) {
  const { selected, setSelected, isEverything, setEverything, clear } = useSelection(list);
  const [cursor, setCursor] = useState<string | undefined>(id);
  const [dialog, setDialog] = useState<{ action: BulkAction; target: BulkTarget } | undefined>();
  const lastSelected = useRef<string | undefined>(undefined);
  const rows = list.rows.value;
  const linkSearch = searchOf(query, sort);
  useEffect(() => setCursor(id ?? cursor), [id]);

  const move = (step: number) => {
    const at = rows.findIndex((row) => row.id === cursor);
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
    if (!next) return;
    setCursor(next.id);
    if (id !== undefined) go(`/jobs/${next.id}${linkSearch}`, { replace: true });
    document.querySelector(`tr[data-id="${next.id}"]`)?.scrollIntoView({ block: 'nearest' });
  };
  const onSelect = (jobId: string, isSelected: boolean, isRange: boolean) => {
    const chosen = new Set(selected);
    for (const one of isRange ? between(rows, lastSelected.current, jobId) : [jobId]) {
      if (isSelected) chosen.add(one);
      else chosen.delete(one);
    }
    lastSelected.current = jobId;
    setEverything(false);
    setSelected(chosen);
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => cursor !== undefined && go(`/jobs/${cursor}${linkSearch}`),
    x: () => {
      if (cursor !== undefined && mayRun.value) onSelect(cursor, !selected.has(cursor), false);
    },
    Escape: () =>
      selected.size > 0 || isEverything ? clear() : id !== undefined && go(`/jobs${linkSearch}`),
  });

  const total = list.total.value;
  const fresh = list.freshIds.value.size;
  const stale = list.staleCount.value;
  const ask = (action: BulkAction) => {
    const target: BulkTarget = isEverything
      ? { filter: inputOf(list.filter), description: query === '' ? 'all jobs' : query }
      : { filter: { ids: [...selected] }, description: plural(selected.size, 'selected job') };
    setDialog({ action, target });
  };
  return (
    <section class="list-pane" aria-label="Jobs">
      <div class="list-head">
        <h1 class="off-screen">Jobs</h1>
        <FilterBar
          query={query}
          rows={rows}
          onQuery={(text) => setSearch('q', text, { replace: false })}
        />
        <select
          aria-label="Sort"
          class="sort"
          value={sort}
          onChange={(event) => setSearch('sort', event.currentTarget.value)}
        >
          {sorts.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="list-bar">
        {selected.size === 0 && !isEverything ? (
          <>
            <StatusTabs query={query} total={total} />
            {mayRun.value && query !== '' && total && total.count > 0 ? (
              <button type="button" class="quiet" onClick={() => setEverything(true)}>
                Select all {totalText(total)}
              </button>
            ) : null}
          </>
        ) : (
          <div class="bulk" role="group" aria-label="Actions for selected jobs">
            <strong>{isEverything ? everythingText(total) : plural(selected.size, 'job')}</strong>
            {actions.map((action) => (
              <button key={action} type="button" onClick={() => ask(action)}>
                {bulkWords[action].verb}…
              </button>
            ))}
            {!isEverything && (list.hasMore.value || selected.size < rows.length) ? (
              <button type="button" class="quiet" onClick={() => setEverything(true)}>
                Select everything that matches{total ? ` (${totalText(total)})` : ''}
              </button>
            ) : null}
            <button type="button" class="quiet" onClick={clear}>
              Clear
            </button>
          </div>
        )}
        <Pill list={list} fresh={fresh} stale={stale} />
      </div>
      {list.error.value === undefined ? null : (
        <ProblemBox error={list.error.value} onRetry={() => void list.reload()} />
      )}
      {rows.length === 0 && !list.isLoading.value && list.error.value === undefined ? (
        <EmptyList isFiltered={list.isFiltered} query={query} />
      ) : (
        <JobRows
          list={list}
          cursorId={id ?? cursor}
          selected={selected}
          isCompact={id !== undefined}
          maySelect={mayRun.value}
          linkSearch={linkSearch}
          onSelect={onSelect}
          onSelectAll={(isAll) => {
            setEverything(false);
            setSelected(isAll ? new Set(rows.map((row) => row.id)) : new Set());
          }}
        />
      )}
      {dialog ? (
        <BulkDialog
          {...dialog}
          onClose={(isDone) => {
            setDialog(undefined);
            if (isDone) clear();
          }}
        />
      ) : null}
    </section>
  );
}

function Pill({ list, fresh, stale }: { list: JobList; fresh: number; stale: number }) {
  const parts = [
    ...(fresh > 0 ? [`${count(fresh)}${fresh >= maxFresh ? '+' : ''} new`] : []),
    ...(stale > 0 ? [`${count(stale)} no longer match`] : []),
  ];
  return (
    <span class="pill-place" aria-live="polite">
      {parts.length === 0 ? null : (
        <button
          type="button"
          class="pill"
          onClick={() => {
            document.querySelector('#job-rows')?.scrollTo({ top: 0 });
            void list.reload();
          }}
        >
          {parts.join(' · ')}
        </button>
      )}
    </span>
  );
}

type Total = { count: number; isExact: boolean };

const totalText = ({ count: n, isExact }: Total): string => `${count(n)}${isExact ? '' : '+'}`;

const everythingText = (total: Total | undefined): string =>
  total ? `Everything that matches: ${totalText(total)}` : 'Everything that matches';

function searchOf(query: string, sort: string): string {
  const params = new URLSearchParams({
    ...(query === '' ? {} : { q: query }),
    ...(sort === '' ? {} : { sort }),
  }).toString();
  return params === '' ? '' : `?${params}`;
}

function between(rows: readonly { id: string }[], from: string | undefined, to: string): string[] {
  const a = rows.findIndex(({ id }) => id === from);
  const b = rows.findIndex(({ id }) => id === to);
  if (a < 0 || b < 0) return [to];
  return rows.slice(Math.min(a, b), Math.max(a, b) + 1).map(({ id }) => id);
}
