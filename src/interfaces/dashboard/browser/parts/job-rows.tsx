// The rows of the job list. Only those in view are in the document.
import { memo } from './memo.ts';
import { useCallback, useRef } from 'preact/hooks';
import type { JobList } from '../job-list.ts';
import { hrefOf } from '../router.ts';
import { isFinal, type JobLine } from '../types.ts';
import { StatusMark } from './status.tsx';
import { Age, RunTime } from './time.tsx';
import { useVisibleRows } from './virtual-rows.ts';
import { useMedia } from './media.ts';

const rowHeightWide = 34;
const rowHeightNarrow = 56;
const loadDistance = 1200;

interface JobRowsProps {
  list: JobList;
  cursorId: string | undefined;
  selected: ReadonlySet<string>;
  isCompact: boolean;
  maySelect: boolean;
  linkSearch: string;
  onSelect(id: string, isSelected: boolean, isRange: boolean): void;
  onSelectAll(isSelected: boolean): void;
}

export function JobRows(props: JobRowsProps) {
  const { list, cursorId, selected, isCompact, maySelect, linkSearch, onSelect, onSelectAll } =
    props;
  const scroller = useRef<HTMLDivElement>(null);
  const rows = list.rows.value;
  const isNarrow = useMedia('(max-width: 760px)');
  const rowHeight = isNarrow ? rowHeightNarrow : rowHeightWide;
  const onScroll = useCallback(
    (top: number, toEnd: number) => {
      list.isAtTop = top < rowHeight;
      if (toEnd < loadDistance) list.loadMore();
    },
    [list, rowHeight],
  );
  const { first, end } = useVisibleRows(scroller, rowHeight, rows.length, onScroll);
  // A spacer over columns that are not shown would take room from the others.
  const columns = (maySelect ? 1 : 0) + (isCompact ? 4 : 6);
  const isAll = rows.length > 0 && rows.every(({ id }) => selected.has(id));
  return (
    <div class={isCompact ? 'rows compact' : 'rows'} ref={scroller} id="job-rows" tabIndex={-1}>
      <table aria-rowcount={rows.length + 1}>
        <caption class="off-screen">Jobs</caption>
        <thead>
          <tr aria-rowindex={1}>
            {maySelect ? (
              <th class="c-check">
                <input
                  type="checkbox"
                  aria-label="Select all loaded jobs"
                  disabled={list.total.value === undefined}
                  checked={isAll}
                  onChange={(event) => onSelectAll(event.currentTarget.checked)}
                />
              </th>
            ) : null}
            <th class="c-status" scope="col">
              Status
            </th>
            <th class="c-job" scope="col">
              Job
            </th>
            <th class="c-kind" scope="col">
              Kind
            </th>
            <th class="c-queue" scope="col">
              Queue
            </th>
            <th class="c-time" scope="col">
              Run
            </th>
            <th class="c-time" scope="col">
              Age
            </th>
          </tr>
        </thead>
        <tbody>
          <Spacer height={first * rowHeight} columns={columns} />
          {rows.slice(first, end).map((job, i) => (
            <JobRow
              key={job.id}
              job={job}
              index={first + i + 2}
              isCursor={job.id === cursorId}
              isSelected={selected.has(job.id)}
              maySelect={maySelect}
              isCounted={list.total.value !== undefined}
              linkSearch={linkSearch}
              onSelect={onSelect}
            />
          ))}
          <Spacer height={(rows.length - end) * rowHeight} columns={columns} />
        </tbody>
      </table>
    </div>
  );
}

function Spacer({ height, columns }: { height: number; columns: number }) {
  if (height === 0) return null;
  return (
    <tr aria-hidden="true" class="spacer">
      <td colSpan={columns} style={{ height: `${height}px` }} />
    </tr>
  );
}

interface JobRowProps {
  job: JobLine;
  index: number;
  isCursor: boolean;
  isSelected: boolean;
  maySelect: boolean;
  /** Changes of several jobs need the number of matching jobs. */
  isCounted: boolean;
  linkSearch: string;
  onSelect(id: string, isSelected: boolean, isRange: boolean): void;
}

const JobRow = memo(function JobRow(props: JobRowProps) {
  const { job, index, isCursor, isSelected, maySelect, isCounted, linkSearch, onSelect } = props;
  const isRunning = job.status === 'running' || job.status === 'input_required';
  const title = titleOf(job);
  return (
    <tr
      class={`${isCursor ? 'on' : ''} ${isSelected ? 'selected' : ''} ${job.isStale ? 'stale' : ''}`}
      aria-rowindex={index}
      data-id={job.id}
      {...(isCursor ? { 'aria-current': 'true' as const } : {})}
    >
      {maySelect ? (
        <td class="c-check">
          <input
            type="checkbox"
            aria-label={`Select ${title}`}
            checked={isSelected}
            disabled={!isCounted}
            onClick={(event) => onSelect(job.id, event.currentTarget.checked, event.shiftKey)}
          />
        </td>
      ) : null}
      <td class="c-status">
        <StatusMark status={job.status} stage={job.stage} exitCode={job.exitCode} />
      </td>
      <td class="c-job">
        <a href={hrefOf(`/jobs/${job.id}${linkSearch}`)} title={title}>
          {title}
        </a>
        <JobNote job={job} title={title} />
      </td>
      <td class="c-kind">{job.kind}</td>
      <td class="c-queue">{job.queue ?? 'default'}</td>
      <td class="c-time">
        {isRunning && job.updatedAt !== undefined ? (
          <RunTime since={job.updatedAt} />
        ) : (
          <RunTime ms={isFinal(job.status) ? job.runMs : undefined} />
        )}
      </td>
      <td class="c-time">
        <Age at={job.createdAt} />
      </td>
    </tr>
  );
});

export const titleOf = ({ id, name, summary }: JobLine): string => name ?? summary ?? id;

function JobNote({ job, title }: { job: JobLine; title: string }) {
  const { name, summary, tags = [], error } = job;
  const notes = [
    ...(name !== undefined && summary !== undefined && summary !== title ? [summary] : []),
    ...(error !== undefined && error !== 'exitCode' ? [error] : []),
  ];
  return (
    <>
      {tags.slice(0, 3).map((tag) => (
        <span key={tag} class="tag">
          {tag}
        </span>
      ))}
      {notes.length > 0 ? <small>{notes.join(' · ')}</small> : null}
    </>
  );
}
