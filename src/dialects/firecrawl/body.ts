// The parts of a request's body that are taken apart here. What is only passed on is checked by the operation it goes to.
import { z } from 'zod';
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import { inputErrorAs } from '../../operation.ts';
import type { Fields } from './translate.ts';

const texts = z.array(z.string()).nullish();
const thing = z.looseObject({});
const named = z.union([z.string(), z.looseObject({ type: z.string() })]);
const reading = {
  formats: z.array(named).nullish(),
  actions: z.array(z.looseObject({ type: z.string() })).nullish(),
};
const bodyShape = z.looseObject({
  ...reading,
  scrapeOptions: z.looseObject(reading).nullish(),
  urls: texts,
  includePaths: texts,
  excludePaths: texts,
  includeDomains: texts,
  excludeDomains: texts,
  sources: z.array(named).nullish(),
  categories: z.array(named).nullish(),
  webhook: z.union([z.string(), thing]).nullish(),
});

const hint = 'The fields are those of Firecrawl v2.';

/** Our names for what is passed on, by which an operation refuses it. */
const names: Record<string, string> = byName({
  concurrency: 'maxConcurrency',
  count: 'limit',
  delayMs: 'delay',
  exclude: 'excludePaths',
  excludeSelectors: 'excludeTags',
  externalLinks: 'allowExternalLinks',
  include: 'includePaths',
  includeSelectors: 'includeTags',
  maxDepth: 'maxDiscoveryDepth',
  maxPages: 'limit',
  onlyUrls: 'strictConstrainToURLs',
  subdomains: 'allowSubdomains',
});

export const inTheirNames = (error: unknown): unknown =>
  inputErrorAs(error, (field) => names[field] ?? field, hint);

export function bodyOf(body: unknown): Fields {
  const parsed = bodyShape.safeParse(body ?? {});
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue!.path.join('.') || 'body';
  throw new AppError('invalidInput', `Bad request: ${where}: ${issue!.message}.`, {
    hint,
  });
}
