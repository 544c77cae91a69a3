// Validates the parts of a request body that this dialect reads itself. The operations validate everything else.
import { z } from 'zod';
import { byName } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import { inputErrorAs } from '../../operation.ts';
import type { Fields } from './translate.ts';

export type Version = 'v1' | 'v2';

const texts = z.array(z.string()).nullish();
const thing = z.looseObject({});
const named = z.union([z.string(), z.looseObject({ type: z.string() })]);

/** Every format of each version, including those that are not available here: the response names these. */
const formatNames: Record<Version, string[]> = {
  v1: 'markdown html rawHtml links screenshot screenshot@fullPage extract json summary changeTracking branding'.split(' '),
  v2: 'markdown html rawHtml links images screenshot screenshot@fullPage summary json changeTracking attributes branding product menu audio video question highlights query'.split(' '),
}; // prettier-ignore

/** The fields of the format json; anything else, such as a systemPrompt, is an error as in the original. */
const jsonFormat = z.strictObject({
  type: z.literal('json'),
  schema: z.unknown().optional(),
  prompt: z.string().max(10_000).nullish(),
  checkPromptInjection: z.boolean().nullish(),
});
const parser = z.enum(['pdf', 'image']);
const size = (max: number) => z.number().int().positive().max(max);
const screenshotFormat = z.looseObject({
  type: z.enum(['screenshot', 'screenshot@fullPage']),
  viewport: z.looseObject({ width: size(7680), height: size(4320) }).nullish(),
});

const readingOf = (version: Version) => {
  const name = z.enum(formatNames[version]);
  const formatObject = z.looseObject({ type: name }).superRefine((format, context) => {
    const shape = { json: jsonFormat, screenshot: screenshotFormat }[format.type];
    for (const { message, path } of shape?.safeParse(format).error?.issues ?? [])
      context.addIssue({ code: 'custom', message, path });
  });
  return z
    .looseObject({
      formats: z.array(z.union([name, formatObject])).nullish(),
      actions: z.array(z.looseObject({ type: z.string() })).nullish(),
      parsers: z.array(z.union([parser, z.looseObject({ type: parser })])).nullish(),
      waitFor: z.number().nonnegative().nullish(),
      timeout: z.number().positive().nullish(),
    })
    .superRefine(({ waitFor, timeout }, context) => {
      if (!waitFor || !timeout || waitFor <= timeout / 2) return;
      const message = 'waitFor must not exceed half of timeout';
      context.addIssue({ code: 'custom', message, path: ['waitFor'] });
    });
};

const bodyShapeOf = (version: Version) =>
  readingOf(version).and(
    z.looseObject({
      scrapeOptions: readingOf(version).nullish(),
      urls: texts,
      includePaths: texts,
      excludePaths: texts,
      includeDomains: texts,
      excludeDomains: texts,
      sources: z.array(named).nullish(),
      categories: z.array(named).nullish(),
      webhook: z.union([z.string(), thing]).nullish(),
    }),
  );
const bodyShapes = { v1: bodyShapeOf('v1'), v2: bodyShapeOf('v2') };

const hint = 'The fields are those of Firecrawl’s API reference for this version.';

/** Our field names, which an operation uses in its errors, mapped to Firecrawl's. */
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

export function bodyOf(body: unknown, version: Version): Fields {
  const parsed = bodyShapes[version].safeParse(body ?? {});
  if (parsed.success) {
    const { scrapeOptions, ...fields } = withoutNulls(parsed.data as Fields);
    return scrapeOptions
      ? { ...fields, scrapeOptions: withoutNulls(scrapeOptions as Fields) }
      : fields;
  }
  throw badRequest(
    parsed.error.issues.map(({ code, message, path }) => ({ code, message, path })),
    hint,
  );
}

interface Detail {
  code: string;
  message: string;
  path: PropertyKey[];
}

/** Firecrawl's clients expect details per field, as in the original. */
export function badRequest(details: Detail[], next: string): AppError {
  const [{ message, path } = { message: 'is not valid', path: [] }] = details;
  const text = `Bad request: ${path.join('.') || 'body'}: ${message}.`;
  return new AppError('invalidInput', text, { hint: next, data: { details } });
}

/** Clients send null for omitted fields. */
const withoutNulls = <F extends Fields>(fields: F): F =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as F;
