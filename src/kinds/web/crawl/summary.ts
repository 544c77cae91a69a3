// The kept counts of a crawl as people read them. Pure.
/** Counts by fate, reasons beside them, changes if they were tracked. */
export function summary(counts: Record<string, number>): Record<string, unknown> {
  const fates: Record<string, number> = {};
  const reasons: Record<string, number> = {};
  const changes: Record<string, number> = {};
  for (const [name, n] of Object.entries(counts)) {
    if (n === 0 || name.startsWith('path:') || name.startsWith('like:')) continue;
    if (name.startsWith('change:')) changes[name.slice('change:'.length)] = n;
    else if (name.includes(':')) reasons[name] = n;
    else fates[name] = n;
  }
  return {
    pages: (fates.fetched ?? 0) + (fates.unchanged ?? 0),
    fates,
    ...(Object.keys(reasons).length > 0 ? { reasons } : {}),
    ...(Object.keys(changes).length > 0 ? { changes } : {}),
  };
}
