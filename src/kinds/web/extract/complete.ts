// What a page states and what a model added, as one result: each value keeps its own source, and what the page states
// stays as it states it.
import { isRecord } from '../../../runtime/json.ts';
import type { Extraction } from './extract.ts';
import type { Source } from './facts.ts';

export function completed(extraction: Extraction, answer: unknown, model: string): Extraction {
  const { needsModel: _asked, data, ...rest } = extraction;
  const source: Source = { kind: 'model', at: model };
  const checked = { ...rest, valid: true, problems: [] };
  if (!isRecord(data) || !isRecord(answer) || rest.missing.length === 0)
    return { ...checked, data: answer, missing: [], fields: [{ path: '', source }] };
  const asked = new Set([...rest.missing, ...rest.problems].map(({ path }) => topOf(path)));
  const own = Object.entries(data).filter(([name]) => !asked.has(name));
  const added = Object.keys(answer).filter((name) => asked.has(name) && answer[name] !== null);
  return {
    ...checked,
    data: { ...data, ...answer, ...Object.fromEntries(own) },
    missing: rest.missing.filter(({ path }) => !added.includes(topOf(path))),
    fields: [
      ...rest.fields.filter(({ path }) => !added.includes(topOf(path))),
      ...added.map((name) => ({ path: `/${escaped(name)}`, source })),
    ],
  };
}

const topOf = (path: string): string =>
  path.split('/')[1]?.replace(/~1/g, '/').replace(/~0/g, '~') ?? '';
const escaped = (name: string): string => name.replace(/~/g, '~0').replace(/\//g, '~1');
