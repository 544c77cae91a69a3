// Counts by status that switch the status filter.
import { count } from '../format.ts';
import type { Count } from '../job-list.ts';
import { parseFilter } from '../query.ts';
import { setSearch } from '../router.ts';
import { statuses } from '../types.ts';
import { lookOf, Shape } from './status.tsx';

export function StatusTabs({ query, total }: { query: string; total: Count | undefined }) {
  const chosen = parseFilter(query).status;
  const rest = query
    .replaceAll(/(^|\s)status:("[^"]*"|\S*)/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const show = (status: string | undefined) =>
    setSearch('q', status === undefined ? rest : `status:${status} ${rest}`.trim(), {
      replace: false,
    });
  const shown = statuses.filter(
    (status) => chosen.includes(status) || (total?.byStatus[status] ?? 0) > 0,
  );
  const isExact = total?.isExact ?? true;
  return (
    <div class="tabs" role="group" aria-label="Status">
      <button type="button" aria-pressed={chosen.length === 0} onClick={() => show(undefined)}>
        All{' '}
        {chosen.length === 0 && total ? (
          <b>
            {count(total.count)}
            {isExact ? '' : '+'}
          </b>
        ) : null}
      </button>
      {shown.map((status) => {
        const isOn = chosen.includes(status);
        const n = total?.byStatus[status];
        return (
          <button
            key={status}
            type="button"
            aria-pressed={isOn}
            class={lookOf(status).tone}
            onClick={() => show(isOn && chosen.length === 1 ? undefined : status)}
          >
            <Shape status={status} />
            {lookOf(status).word} {n === undefined ? null : <b>{count(n)}</b>}
          </button>
        );
      })}
    </div>
  );
}
