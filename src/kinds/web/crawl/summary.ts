// Converts crawl counters into the summary shown to callers.
/** Groups counters by outcome, reason and change. */
export function summary(counts: Record<string, number>): Record<string, unknown> {
  const outcomes: Record<string, number> = {};
  const reasons: Record<string, number> = {};
  const changes: Record<string, number> = {};
  for (const [name, n] of Object.entries(counts)) {
    if (n === 0 || name.startsWith('path:') || name.startsWith('like:')) continue;
    if (name.startsWith('change:')) changes[name.slice('change:'.length)] = n;
    else if (name.includes(':')) reasons[name] = n;
    else outcomes[name] = n;
  }
  return {
    pages: (outcomes.fetched ?? 0) + (outcomes.unchanged ?? 0),
    outcomes,
    ...(Object.keys(reasons).length > 0 ? { reasons } : {}),
    ...(Object.keys(changes).length > 0 ? { changes } : {}),
  };
}
