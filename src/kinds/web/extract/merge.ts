// Merges what a page states with what a model added. Each value keeps its source, and the page's values are
// never replaced.
import { isRecord } from '../../../runtime/json.ts';
import type { Extraction } from './extract.ts';
import type { Source } from './facts.ts';

export function mergeModelData(
  extraction: Extraction,
  modelData: unknown,
  model: string,
): Extraction {
  const { needsModel: _request, data, ...rest } = extraction;
  const source: Source = { kind: 'model', at: model };
  const checked = { ...rest, valid: true, problems: [] };
  if (!isRecord(data) || !isRecord(modelData) || rest.missing.length === 0)
    return { ...checked, data: modelData, missing: [], fields: [{ path: '', source }] };
  const requested = new Set(
    [...rest.missing, ...rest.problems].map(({ path }) => topLevelName(path)),
  );
  const stated = Object.entries(data).filter(([name]) => !requested.has(name));
  const added = Object.keys(modelData).filter(
    (name) => requested.has(name) && modelData[name] !== null,
  );
  return {
    ...checked,
    data: { ...data, ...modelData, ...Object.fromEntries(stated) },
    missing: rest.missing.filter(({ path }) => !added.includes(topLevelName(path))),
    fields: [
      ...rest.fields.filter(({ path }) => !added.includes(topLevelName(path))),
      ...added.map((name) => ({ path: `/${escapePointer(name)}`, source })),
    ],
  };
}

const topLevelName = (path: string): string =>
  path.split('/')[1]?.replace(/~1/g, '/').replace(/~0/g, '~') ?? '';
const escapePointer = (name: string): string => name.replace(/~/g, '~0').replace(/\//g, '~1');
