// Actions on one page: markdown, extract, screenshot, browse. Each loads, does its one thing and charges for it.
import type { Page } from 'playwright-core';
import { AppError } from '../../../errors.ts';
import type { Run } from '../../../jobs/kind.ts';
import { isoTime } from '../../../runtime/clock.ts';
import { runActions, type ActionResult } from '../browser/actions.ts';
import type { Picture } from '../browser/browser.ts';
import { parseUrl } from '../crawl/url.ts';
import { completed } from '../extract/complete.ts';
import type { Extraction } from '../extract/extract.ts';
import type { SelectorRule } from '../extract/lookup.ts';
import { askModel } from '../extract/model.ts';
import { loadPage, type Loaded } from '../fetch/load.ts';
import { readingKey } from '../reads/store.ts';
import type { Services } from '../services.ts';
import { creditTable } from '../usage/credits.ts';
import { insertStep } from '../steps/store.ts';
import type { ActionInput } from './inputs.ts';

const browseMs = 60_000;

export async function readAction(run: Run, input: ActionInput<'markdown'>, services: Services) {
  const {
    url,
    render,
    actions,
    robots,
    headers,
    timeoutMs,
    maxAgeMs: _age,
    maxBytes: _bytes,
    offset: _offset,
    formats: all,
    ...reading
  } = input;
  const formats = all.filter((format) => format !== 'raw');
  const wish = { url, formats, render, actions, robots, headers, timeoutMs, reading };
  const loaded = await loadPage(
    { ...given(wish), url, formats, jobId: run.job.id, signal: run.signal },
    services,
  );
  const { page } = loaded;
  const creditsUsed = creditTable.markdown + (loaded.rendered ? creditTable.renderedPage : 0);
  await charge(run, services, 'markdown', {
    creditsUsed,
    bytes: loaded.bytes,
    browserMs: loaded.browserMs,
  });
  const at = services.clock.now();
  const key = readingKey(input);
  if (key !== undefined)
    await services.reads.remember(run.job.owner, key, { jobId: run.job.id, at });
  const kept = Object.fromEntries(formats.map((format) => [format, page[format]]));
  const raw = all.includes('raw') ? { raw: loaded.html } : {};
  return {
    url: loaded.url,
    httpStatus: loaded.status,
    ...(loaded.type === undefined ? {} : { type: loaded.type }),
    kind: page.kind,
    ...(page.title === undefined ? {} : { title: page.title }),
    ...kept,
    ...raw,
    wordCount: page.wordCount,
    fetchedAt: isoTime(at),
    ...(loaded.rendered ? { rendered: true } : {}),
    ...(page.needsBrowser && !loaded.rendered ? { needsBrowser: true } : {}),
    ...(page.truncated ? { truncated: true } : {}),
    ...(page.pages === undefined ? {} : { pages: page.pages }),
    creditsUsed,
  };
}

export async function extractAction(run: Run, input: ActionInput<'extract'>, services: Services) {
  const { url, schema, prompt, selectors, ...how } = input;
  const loaded = await loadPage(
    {
      ...given(how),
      url,
      formats: ['metadata'],
      otherFormats: ['markdown'],
      jobId: run.job.id,
      signal: run.signal,
    },
    services,
  );
  const made = await extracted(
    htmlOf(loaded),
    loaded.url,
    { schema, prompt, selectors },
    services,
    run.signal,
  );
  const { creditsUsed, ...extraction } = made;
  await charge(run, services, 'extract', {
    creditsUsed,
    bytes: loaded.bytes,
    browserMs: loaded.browserMs,
  });
  return { ...extraction, creditsUsed };
}

/** A PDF or JSON states nothing in tags; a model can still read it. */
export function htmlOf({ page, html }: Loaded): string {
  if (page.kind === 'html') return html;
  const text = page.markdown ?? page.text ?? '';
  return `<pre>${text.replace(/&/g, '&amp;').replace(/</g, '&lt;')}</pre>`;
}

export type Extracted = Extraction & {
  creditsUsed: number;
  model?: string;
  /** Why the model of the settings did not help. */
  modelProblem?: string;
};

/** Without a model first; with one, if the settings name one and something is missing. */
export async function extracted(
  html: string,
  url: string,
  wish: {
    schema?: unknown;
    prompt?: string | undefined;
    selectors?: Record<string, SelectorRule> | undefined;
  },
  services: Services,
  signal: AbortSignal,
): Promise<Extracted> {
  const extraction = await services.reader.extract(
    html,
    { url, contentType: 'text/html' },
    given(wish),
  );
  const { needsModel } = extraction;
  const { model } = services.settings;
  if (!needsModel || !model) return { ...extraction, creditsUsed: creditTable.extract };
  const { url: address, name, timeoutMs, keyName } = model;
  const key = services.secret(keyName);
  const { egress, reader } = services;
  const endpoint = { url: address, name, timeoutMs, egress, reader, ...given({ key }) };
  // Without an answer, or with one that does not fit, what is known stays, and the caller may fill the rest.
  const unanswered = (problem: string, creditsUsed: number) => ({ ...extraction, creditsUsed, modelProblem: problem }); // prettier-ignore
  try {
    const asked = await askModel(needsModel, endpoint, signal);
    const creditsUsed = creditTable.extract + creditTable.extractWithModel;
    if (asked.valid)
      return { ...completed(extraction, asked.value, name), creditsUsed, model: name };
    return unanswered(`The answer of ${name} does not fit the schema.`, creditsUsed);
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError)) throw error;
    const { message, hint = '' } = error;
    return unanswered(`${message} ${hint}`.trim(), creditTable.extract);
  }
}

export async function screenshotAction(
  run: Run,
  input: ActionInput<'screenshot'>,
  services: Services,
) {
  const {
    url,
    fullPage,
    format,
    quality,
    width,
    height,
    waitForSelector,
    timeoutMs = 30_000,
    headers,
  } = input;
  const { browser, clock } = services;
  const start = clock.now();
  const wish = { timeoutMs, width, height, signal: run.signal, ...(headers ? { headers } : {}) };
  const taken = await browser.withPage(parseUrl(url).href, wish, async (page, httpStatus) => {
    if (waitForSelector !== undefined) await awaited(page, waitForSelector, timeoutMs);
    const quality_ = quality === undefined ? {} : { quality };
    const picture = await browser.picture(page, run.job.id, { fullPage, format, ...quality_ });
    return { picture, httpStatus, title: await page.title(), finalUrl: page.url() };
  });
  const creditsUsed = creditTable.screenshot;
  await charge(run, services, 'screenshot', {
    creditsUsed,
    bytes: 0,
    browserMs: clock.now() - start,
  });
  const { picture, finalUrl, title, httpStatus } = taken;
  return { url: finalUrl, httpStatus, title, ...fileOf(picture), creditsUsed };
}

async function awaited(page: Page, selector: string, timeoutMs: number): Promise<void> {
  try {
    await page.locator(selector).first().waitFor({ timeout: timeoutMs });
  } catch (error) {
    if ((error as Error).name !== 'TimeoutError') throw error;
    const message = `Nothing that is seen matches ${selector} within ${timeoutMs} ms.`;
    throw new AppError('timeout', message, { cause: error });
  }
}

export async function browseAction(run: Run, input: ActionInput<'browse'>, services: Services) {
  const { browser, reader, clock } = services;
  const start = clock.now();
  const pictures: Picture[] = [];
  const results: ActionResult[] = [];
  const { url, actions, width, height, timeoutMs = browseMs } = input;
  const size = { ...(width ? { width } : {}), ...(height ? { height } : {}) };
  const wish = { timeoutMs, signal: run.signal, ...size };
  const needs = {
    browser,
    reader,
    clock,
    jobId: run.job.id,
    onPicture: (one: Picture) => pictures.push(one),
    onResult: (one: ActionResult) => results.push(one),
  };
  const end = await browser
    .withPage(parseUrl(url).href, wish, async (page, httpStatus) => {
      const last = await runActions(page, actions, needs);
      return { httpStatus, finalUrl: last.url(), title: await last.title() };
    })
    .catch((error: unknown) => {
      // What was done is done, and told; only what came of it last is not known.
      const code = error instanceof AppError && !run.signal.aborted ? error.code : '';
      const stopReason = { timeout: 'time', unavailable: 'browser' }[code];
      if (stopReason === undefined || results.length === 0) throw error;
      return { stopReason, error: (error as AppError).message };
    });
  const creditsUsed = creditTable.browse;
  await charge(run, services, 'browse', { creditsUsed, bytes: 0, browserMs: clock.now() - start });
  const success = results.length === actions.length && results.every((one) => one.success);
  return { url, success, results, ...end, pictures: pictures.map(fileOf), creditsUsed };
}

/** JSON that an agent or a person made from what extract_data handed out: kept as a job of its own. */
export async function submissionAction(_run: Run, input: ActionInput<'submission'>) {
  return {
    extractionId: input.extractionId,
    data: input.data,
    valid: true,
    source: 'model',
    sources: input.sources ?? [],
    creditsUsed: 0,
  };
}

function fileOf({ path, mimeType, width, height, bytes }: Picture) {
  return { path, mimeType, width, height, bytes: bytes.length };
}

/** Once for a job, also when a server that was killed had written it down and another one did the work again. */
export async function charge(
  run: Run,
  { usage }: Services,
  action: string,
  spent: { creditsUsed: number; bytes: number; browserMs?: number; pages?: number },
): Promise<void> {
  const { creditsUsed: credits, bytes, browserMs = 0, pages = 1 } = spent;
  const paid = { n: 0, key: action, trial: 0, step: { credits }, found: undefined };
  const steps = [insertStep(run.job.id, paid)];
  await usage.spend(run.job, action, { calls: 1, credits, pages, bytes, browserMs }, { steps });
}

export function given<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined)) as never;
}
