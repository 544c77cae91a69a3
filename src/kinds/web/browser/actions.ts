// browse: a list of actions on one page, each with its own result. A failed wait ends the list, because what follows
// relied on it; other failures are told and the rest goes on.
import type { Locator, Page } from 'playwright-core';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { parseUrl } from '../crawl/url.ts';
import type { Reader } from '../fetch/reader.ts';
import type { Browser, Picture } from './browser.ts';
import { firstLine } from './failures.ts';
import { pageHtml, partHtml } from './page-html.ts';
import { Tabs, type SeenDialog } from './tabs.ts';
import { within } from './within.ts';

const selector = z.string().min(1).max(1000).describe('CSS, text=…, or ref=e12 of a snapshot');
const ms = z.number().int().min(0).max(30_000);

const navigate = z.strictObject({ type: z.literal('navigate'), url: z.string().max(2000) });
/** Those that change the page and answer nothing: also done on each page of a crawl. */
const acting = [
  z.strictObject({ type: z.literal('wait'), selector: selector.optional(), ms: ms.optional() }),
  z.strictObject({ type: z.literal('click'), selector }),
  z.strictObject({ type: z.literal('fill'), selector, value: z.string().max(20_000) }),
  z.strictObject({
    type: z.literal('type'),
    selector: selector.optional(),
    text: z.string().max(20_000),
  }),
  z.strictObject({ type: z.literal('select'), selector, value: z.string().max(1000) }),
  z.strictObject({
    type: z.literal('scroll'),
    direction: z.enum(['down', 'up']).default('down'),
    amount: z.number().int().min(1).max(100_000).optional().describe('Pixels; default one screen'),
  }),
  z.strictObject({ type: z.literal('press'), key: z.string().max(50) }),
] as const;
const evaluate = z.strictObject({ type: z.literal('evaluate'), script: z.string().max(20_000) });

export const browseAction = z.discriminatedUnion('type', [
  navigate,
  ...acting,
  z.strictObject({ type: z.literal('screenshot'), fullPage: z.boolean().default(false) }),
  z.strictObject({
    type: z.literal('extract'),
    selector: selector.optional(),
    format: z.enum(['markdown', 'html', 'text']).default('markdown'),
  }),
  evaluate,
  z.strictObject({ type: z.literal('snapshot') }),
]);
export const pageAction = z.discriminatedUnion('type', [...acting, evaluate]);
export type PageAction = z.infer<typeof pageAction>;
export type BrowseAction = z.infer<typeof browseAction>;

export const actionsMax = 20;
const actionMs = 10_000;
const contentCharsMax = 50_000;

/** A tab that a script opens at a click is there after this; one that a link opens is waited for. */
const tabMs = 150;
const tabLinkMs = 3000;

export interface ActionResult {
  action: string;
  success: boolean;
  data?: unknown;
  content?: string;
  /** The content is longer than what is shown. */
  truncated?: true;
  /** What the page asked meanwhile; the answer was no. */
  dialogs?: SeenDialog[];
  /** The tab that was opened: what follows acts on it. */
  newTab?: string;
  error?: string;
}

type Answer = Pick<ActionResult, 'data' | 'content' | 'truncated'>;

export interface ActionNeeds {
  browser: Browser;
  reader: Reader;
  clock: Clock;
  jobId: string;
  onPicture(picture: Picture): void;
  /** Each as soon as it is there: what was done stays known when the rest runs out of time. */
  onResult(result: ActionResult): void;
}

/** The page that they end on. */
export async function runActions(
  first: Page,
  actions: readonly BrowseAction[],
  needs: ActionNeeds,
): Promise<Page> {
  const tabs = new Tabs(first);
  await inOrder(tabs, actions, needs, (page, action) => runAction(page, action, needs));
  return tabs.current;
}

/** What is done to a page before it is read; what failed is said in a line. */
export async function prepare(
  page: Page,
  actions: readonly PageAction[],
  clock: Clock,
): Promise<string | undefined> {
  if (actions.length === 0) return undefined;
  const failed: string[] = [];
  const onResult = ({ action, success, error }: ActionResult) => {
    if (!success) failed.push(`${action} failed: ${error}`);
  };
  await inOrder({ current: page, takeDialogs: () => [] }, actions, { clock, onResult }, act);
  return failed.join('; ') || undefined;
}

async function inOrder<A extends BrowseAction>(
  tabs: Pick<Tabs, 'current' | 'takeDialogs'>,
  actions: readonly A[],
  { clock, onResult }: Pick<ActionNeeds, 'clock' | 'onResult'>,
  run: (page: Page, action: A) => Promise<Answer>,
): Promise<void> {
  for (const action of actions) {
    const page = tabs.current;
    page.setDefaultTimeout(actionMs);
    const result: ActionResult = { action: action.type, success: true };
    const limitMs = limitOf(action);
    const late = () => new Error(`It was not done within ${limitMs} ms.`);
    try {
      Object.assign(result, await within({ clock, limitMs, late }, () => run(page, action)));
    } catch (error) {
      if (error instanceof AppError && error.code === 'unavailable') throw error;
      if (/has been closed|crashed/i.test((error as Error).message)) throw error;
      result.success = false;
      result.error = await whyFailed(page, action, error as Error);
    }
    if (tabs.current !== page) result.newTab = await settled(tabs.current);
    const dialogs = tabs.takeDialogs();
    onResult(dialogs.length > 0 ? { ...result, dialogs } : result);
    if (!result.success && action.type === 'wait') break;
  }
}

/** A wait says itself how long; the browser bounds the others, but not a script that never ends. */
function limitOf(action: BrowseAction): number {
  return (action.type === 'wait' ? (action.ms ?? actionMs) : actionMs) + 1000;
}

/** The driver only says that its time was over. */
async function whyFailed(page: Page, action: BrowseAction, error: Error): Promise<string> {
  const selector = 'selector' in action ? action.selector : undefined;
  if (error.name !== 'TimeoutError' || selector === undefined) return firstLine(error.message);
  const count = await page.locator(selector).count().catch(() => 0); // prettier-ignore
  return count === 0
    ? `Nothing matches ${selector}. A snapshot or an extract shows what there is.`
    : `${selector} is there (${count} times), but could not be used in time: hidden, covered or disabled.`;
}

async function settled(page: Page): Promise<string> {
  await page.waitForLoadState('domcontentloaded', { timeout: actionMs }).catch(() => {});
  return page.url();
}

async function runAction(page: Page, action: BrowseAction, needs: ActionNeeds): Promise<Answer> {
  if (action.type === 'navigate') {
    const httpStatus = await needs.browser.visit(page, parseUrl(action.url).href, actionMs);
    return { data: { url: page.url(), httpStatus } };
  }
  if (action.type === 'screenshot') {
    const picture = await needs.browser.picture(page, needs.jobId, { fullPage: action.fullPage });
    needs.onPicture(picture);
    const { path, width, height, mimeType } = picture;
    return { data: { path, width, height, mimeType, bytes: picture.bytes.length } };
  }
  if (action.type === 'extract') return shown(await contentOf(page, action, needs));
  if (action.type === 'snapshot') return shown(await snapshotOf(page));
  return act(page, action);
}

function shown(content: string): Answer {
  return content.length > contentCharsMax
    ? { content: content.slice(0, contentCharsMax), truncated: true }
    : { content };
}

async function act(page: Page, action: PageAction): Promise<Answer> {
  switch (action.type) {
    case 'wait':
      if (action.selector !== undefined)
        await (await at(page, action.selector)).waitFor({ timeout: action.ms ?? actionMs });
      else await page.waitForTimeout(action.ms ?? 1000);
      return {};
    case 'click':
      await click(page, await at(page, action.selector));
      return {};
    case 'fill':
      await (await at(page, action.selector)).fill(action.value);
      return {};
    case 'type':
      if (action.selector === undefined) await page.keyboard.type(action.text);
      else await (await at(page, action.selector)).pressSequentially(action.text);
      return {};
    case 'select':
      return { data: await (await at(page, action.selector)).selectOption(action.value) };
    case 'scroll': {
      const step = action.amount ?? page.viewportSize()?.height ?? 800;
      await page.mouse.wheel(0, action.direction === 'down' ? step : -step);
      await page.waitForTimeout(200);
      return {};
    }
    case 'press':
      await page.keyboard.press(action.key);
      return {};
    case 'evaluate':
      return evaluated(await page.evaluate(expressionOf(action.script)));
  }
}

async function click(page: Page, target: Locator): Promise<void> {
  const leads = await target.locator('xpath=ancestor-or-self::*[@target="_blank"]').count();
  const context = page.context();
  const before = context.pages().length;
  await target.click();
  const timeout = leads > 0 ? tabLinkMs : tabMs;
  if (context.pages().length === before)
    await context.waitForEvent('page', { timeout }).catch(() => {}); // prettier-ignore
  await page.waitForLoadState('domcontentloaded').catch(() => {});
}

/** Scripts come as expressions, as functions, and as bodies with `return` or `await`. */
function expressionOf(script: string): string {
  const text = script.trim().replace(/;$/, '');
  if (/^(?:async\s+)?(?:function\b|\([^()]*\)\s*=>|\w+\s*=>)/.test(text)) return `(${text})()`;
  if (/(?:^|[;{}\n])\s*return\b/.test(text)) return `(async () => { ${script} })()`;
  if (/^await\b/.test(text)) return `(async () => (${text}))()`;
  return script;
}

/** What a script answers, as JSON and no longer than other content. */
function evaluated(value: unknown): Answer {
  if (value === undefined) return {};
  const text = JSON.stringify(value, (_key, one: unknown) => (typeof one === 'bigint' ? String(one) : one)) ?? 'null'; // prettier-ignore
  return text.length > contentCharsMax
    ? shown(typeof value === 'string' ? value : text)
    : { data: JSON.parse(text) as unknown };
}

async function at(page: Page, selector: string): Promise<Locator> {
  if (!selector.startsWith('ref=')) return page.locator(selector).first();
  const found = page.locator(`aria-ref=${selector.slice(4)}`).first();
  if ((await found.count()) > 0) return found;
  throw new AppError(
    'invalidInput',
    `There is no ${selector} (any more). Refs are those of the last snapshot of the same call: do a snapshot first.`,
  );
}

/** The page as assistive technology sees it; [ref=e12] can be given as a selector: ref=e12. */
async function snapshotOf(page: Page): Promise<string> {
  return page.locator('body').ariaSnapshot({ mode: 'ai' });
}

async function contentOf(
  page: Page,
  { selector: part, format }: Extract<BrowseAction, { type: 'extract' }>,
  { reader }: ActionNeeds,
): Promise<string> {
  const place = part === undefined ? undefined : await at(page, part);
  if (format === 'text' && place) {
    const text = await place.innerText();
    // Parts in shadow roots have none of their own.
    if (text.trim() !== '') return text;
  }
  const html = place ? await partHtml(place) : await pageHtml(page);
  if (format === 'html') return html;
  const read = await reader.read(html, {
    url: page.url(),
    contentType: 'text/html',
    formats: [format],
    onlyMainContent: part === undefined && format === 'markdown',
  });
  return read[format] ?? '';
}
