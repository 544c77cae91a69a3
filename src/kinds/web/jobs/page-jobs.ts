// Actions on one page: markdown, extract, screenshot and browse. Each loads the page, does its work and charges for it.
import { defined } from '../../../runtime/defined.ts';
import type { Page } from 'playwright-core';
import { AppError } from '../../../errors.ts';
import type { Run } from '../../../jobs/kind.ts';
import { isoTime } from '../../../runtime/clock.ts';
import { runActions, type ActionResult } from '../browser/actions.ts';
import type { Picture } from '../browser/pictures.ts';
import { parseUrl } from '../url.ts';
import { mergeModelData } from '../extract/merge.ts';
import type { Extraction } from '../extract/extract.ts';
import type { SelectorRule } from '../extract/lookup.ts';
import { askModel } from '../extract/model.ts';
import { loadPage, type Loaded } from '../fetch/load.ts';
import { readingKey } from '../store/reads.ts';
import type { WebDeps } from '../deps.ts';
import { creditTable } from '../billing/credits.ts';
import { insertStep } from '../store/steps.ts';
import type { ActionInput } from './inputs.ts';

const browseMs = 60_000;

export async function readAction(run: Run, input: ActionInput<'markdown'>, services: WebDeps) {
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
    reusable = true,
    pdf,
    ...reading
  } = input;
  const formats = all.filter((format) => format !== 'raw');
  const options = { url, formats, render, actions, robots, headers, timeoutMs, pdf, reading };
  const loaded = await loadPage(
    { ...defined(options), url, formats, jobId: run.job.id, signal: run.signal },
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
  const key = reusable ? readingKey(input) : undefined;
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
    ...(page.omitted === undefined ? {} : { omitted: page.omitted }),
    ...(page.hiddenWords === undefined ? {} : { hiddenWords: page.hiddenWords }),
    fetchedAt: isoTime(at),
    ...(loaded.rendered ? { rendered: true } : {}),
    ...(page.needsBrowser && !loaded.rendered ? { needsBrowser: true } : {}),
    ...(page.truncated ? { truncated: true } : {}),
    ...(page.pages === undefined ? {} : { pages: page.pages }),
    creditsUsed,
  };
}

export async function extractAction(run: Run, input: ActionInput<'extract'>, services: WebDeps) {
  const { url, schema, prompt, selectors, ...how } = input;
  const loaded = await loadPage(
    {
      ...defined(how),
      url,
      formats: ['metadata'],
      otherFormats: ['markdown'],
      jobId: run.job.id,
      signal: run.signal,
    },
    services,
  );
  const made = await extractData(
    { html: htmlOf(loaded), url: loaded.url },
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

/** Wraps documents without markup (PDF, JSON) as HTML, so that a model can read them. */
export function htmlOf({ page, html }: Loaded): string {
  if (page.kind === 'html') return html;
  const text = page.markdown ?? page.text ?? '';
  return `<pre>${text.replace(/&/g, '&amp;').replace(/</g, '&lt;')}</pre>`;
}

export type Extracted = Extraction & {
  creditsUsed: number;
  model?: string;
  /** Why the configured model could not complete the data. */
  modelProblem?: string;
};

/** Extracts data without a model first. If fields are missing, asks the configured model. */
export async function extractData(
  { html, url }: { html: string; url: string },
  options: {
    schema?: unknown;
    prompt?: string | undefined;
    selectors?: Record<string, SelectorRule> | undefined;
  },
  services: WebDeps,
  signal: AbortSignal,
): Promise<Extracted> {
  const extraction = await services.reader.extract(
    html,
    { url, contentType: 'text/html' },
    defined(options),
  );
  const { needsModel } = extraction;
  const { model } = services.settings;
  if (!needsModel || !model) return { ...extraction, creditsUsed: creditTable.extract };
  const { url: address, name, timeoutMs, keyName } = model;
  const key = services.secret(keyName);
  const { egress, reader } = services;
  const endpoint = { url: address, name, timeoutMs, egress, reader, ...defined({ key }) };
  // If the model fails or its response does not match the schema, the caller gets the partial data.
  const withModelProblem = (problem: string, creditsUsed: number) => ({ ...extraction, creditsUsed, modelProblem: problem }); // prettier-ignore
  try {
    const asked = await askModel(needsModel, endpoint, signal);
    const creditsUsed = creditTable.extract + creditTable.extractWithModel;
    if (asked.valid)
      return { ...mergeModelData(extraction, asked.value, name), creditsUsed, model: name };
    return withModelProblem(`The response of ${name} does not match the schema.`, creditsUsed);
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError)) throw error;
    const { message, hint = '' } = error;
    return withModelProblem(`${message} ${hint}`.trim(), creditTable.extract);
  }
}

export async function screenshotAction(
  run: Run,
  input: ActionInput<'screenshot'>,
  services: WebDeps,
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
  const options = { timeoutMs, width, height, signal: run.signal, ...(headers ? { headers } : {}) };
  const taken = await browser.withPage(parseUrl(url).href, options, async (page, httpStatus) => {
    if (waitForSelector !== undefined) await waitForElement(page, waitForSelector, timeoutMs);
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

async function waitForElement(page: Page, selector: string, timeoutMs: number): Promise<void> {
  try {
    await page.locator(selector).first().waitFor({ timeout: timeoutMs });
  } catch (error) {
    if ((error as Error).name !== 'TimeoutError') throw error;
    const message = `No visible element matched ${selector} within ${timeoutMs} ms.`;
    throw new AppError('timeout', message, { cause: error });
  }
}

export async function browseAction(run: Run, input: ActionInput<'browse'>, services: WebDeps) {
  const { browser, reader, clock } = services;
  const start = clock.now();
  const pictures: Picture[] = [];
  const results: ActionResult[] = [];
  const { url, actions, width, height, timeoutMs = browseMs } = input;
  const size = { ...(width ? { width } : {}), ...(height ? { height } : {}) };
  const options = { timeoutMs, signal: run.signal, ...size };
  const deps = {
    browser,
    reader,
    clock,
    jobId: run.job.id,
    onPicture: (one: Picture) => pictures.push(one),
    onResult: (one: ActionResult) => results.push(one),
  };
  const end = await browser
    .withPage(parseUrl(url).href, options, async (page, httpStatus) => {
      const last = await runActions(page, actions, deps);
      return { httpStatus, finalUrl: last.url(), title: await last.title() };
    })
    .catch((error: unknown) => {
      // Completed actions are reported. Only the result of the last one is unknown.
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

/** Stores JSON that a caller produced from the content of extract_data, as a separate job. */
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

function fileOf({ path, mimeType, width, height, bytes, notice }: Picture) {
  return { path, mimeType, width, height, bytes: bytes.length, ...defined({ notice }) };
}

/** Charges a job once, even when another server repeats the work after a kill. */
export async function charge(
  run: Run,
  { usage }: WebDeps,
  action: string,
  spent: { creditsUsed: number; bytes: number; browserMs?: number; pages?: number },
): Promise<void> {
  const { creditsUsed: credits, bytes, browserMs = 0, pages = 1 } = spent;
  const paid = { n: 0, key: action, trial: 0, step: { credits }, found: undefined };
  const steps = [insertStep(run.job.id, paid)];
  await usage.spend(run.job, action, { calls: 1, credits, pages, bytes, browserMs }, { steps });
}
