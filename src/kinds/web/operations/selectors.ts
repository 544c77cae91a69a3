// Validates CSS selectors on an empty page, so that invalid ones are reported before anything is fetched.
import type { SelectorRule } from '../extract/lookup.ts';

export async function checkSelectors(
  parts: readonly string[],
  rules: Readonly<Record<string, SelectorRule>> = {},
): Promise<void> {
  const all = [...parts, ...Object.values(rules).flatMap(selectorsOf)];
  if (all.length === 0) return;
  const [{ parseHtml }, { select }] = await Promise.all([
    import('../read/parse-html.ts'),
    import('../read/selectors.ts'),
  ]);
  const page = parseHtml('');
  for (const selector of all) select(page, selector);
}

function selectorsOf(rule: SelectorRule): string[] {
  if (typeof rule === 'string') return [rule.replace(/(\S)\s*@[\w-]+$/, '$1')];
  return [rule.selector, ...Object.values(rule.fields ?? {}).flatMap(selectorsOf)];
}
