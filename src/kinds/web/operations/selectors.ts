// Selectors of callers, tried on an empty page before a job is made of them.
export async function checkSelectors({
  includeSelectors = [],
  excludeSelectors = [],
  linkSelectors = [],
  selectors = {},
}: {
  includeSelectors?: string[] | undefined;
  excludeSelectors?: string[] | undefined;
  linkSelectors?: string[] | undefined;
  selectors?: Record<string, string> | undefined;
}): Promise<void> {
  const parts = [...includeSelectors, ...excludeSelectors, ...linkSelectors];
  const rules = Object.values(selectors);
  if (parts.length + rules.length === 0) return;
  const [{ parseHtml }, { select }, { selected }] = await Promise.all([
    import('../content/dom.ts'),
    import('../content/selectors.ts'),
    import('../extract/lookup.ts'),
  ]);
  const page = parseHtml('');
  for (const part of parts) select(page, part);
  for (const rule of rules) selected(page, rule);
}
