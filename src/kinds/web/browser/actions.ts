// Runs a list of browser actions on one page, each with its own result. A failed wait ends the list, because later actions
// depend on it. Other failures are reported and the list continues.
import type { Locator, Page } from 'playwright-core';
import { AppError } from '../../../errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { parseUrl } from '../url.ts';
import type { Reader } from '../read/reader.ts';
import type { Picture } from './pictures.ts';
import { firstLine } from './failures.ts';
import { pageHtml, partHtml } from './page-html.ts';
import { Tabs, type SeenDialog } from './tabs.ts';
import { within } from './within.ts';
import type { BrowseAction, PageAction } from './page-action.ts';

export const maxActions = 20;
const actionMs = 10_000;
const maxContentChars = 50_000;

/** How long a click waits for a new tab: briefly for scripts, longer for links with a target. */
const tabMs = 150;
const tabLinkMs = 3000;

export interface ActionResult {
  action: string;
  success: boolean;
  data?: unknown;
  content?: string;
  /** The content was truncated. */
  truncated?: true;
  /** Dialogs that the page opened. They were dismissed. */
  dialogs?: SeenDialog[];
  /** URL of a new tab. Later actions run in it. */
  newTab?: string;
  error?: string;
}

type ActionOutput = Pick<ActionResult, 'data' | 'content' | 'truncated'>;

/** The part of the browser that actions use. */
interface ActionBrowser {
  visit(page: Page, url: string, timeoutMs: number): Promise<number | undefined>;
  picture(page: Page, jobId: string, options: { fullPage: boolean }): Promise<Picture>;
}

interface ActionDeps {
  browser: ActionBrowser;
  reader: Reader;
  clock: Clock;
  jobId: string;
  onPicture(picture: Picture): void;
  /** Called after each action, so that completed actions are reported even after a timeout. */
  onResult(result: ActionResult): void;
}

/** Runs the actions and returns the page of the last one. */
export async function runActions(
  first: Page,
  actions: readonly BrowseAction[],
  deps: ActionDeps,
): Promise<Page> {
  const tabs = new Tabs(first);
  await runInOrder(tabs, actions, deps, (page, action) => runAction(page, action, deps));
  return tabs.current;
}

/** Runs actions before a page is read. Returns a description of the failed ones. */
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
  await runInOrder({ current: page, takeDialogs: () => [] }, actions, { clock, onResult }, act);
  return failed.join('; ') || undefined;
}

async function runInOrder<A extends BrowseAction>(
  tabs: Pick<Tabs, 'current' | 'takeDialogs'>,
  actions: readonly A[],
  { clock, onResult }: Pick<ActionDeps, 'clock' | 'onResult'>,
  run: (page: Page, action: A) => Promise<ActionOutput>,
): Promise<void> {
  for (const action of actions) {
    const page = tabs.current;
    page.setDefaultTimeout(actionMs);
    const result: ActionResult = { action: action.type, success: true };
    const limitMs = limitOf(action);
    const late = () => new Error(`The action did not finish within ${limitMs} ms.`);
    try {
      Object.assign(result, await within({ clock, limitMs, late }, () => run(page, action)));
    } catch (error) {
      if (error instanceof AppError && error.code === 'unavailable') throw error;
      if (/has been closed|crashed/i.test((error as Error).message)) throw error;
      result.success = false;
      result.error = await explainFailure(page, action, error as Error);
    }
    if (tabs.current !== page) result.newTab = await waitForLoad(tabs.current);
    const dialogs = tabs.takeDialogs();
    onResult(dialogs.length > 0 ? { ...result, dialogs } : result);
    if (!result.success && action.type === 'wait') break;
  }
}

/** Time limit of an action. The driver limits most actions, but not scripts that never end. */
function limitOf(action: BrowseAction): number {
  return (action.type === 'wait' ? (action.ms ?? actionMs) : actionMs) + 1000;
}

/** Adds a reason to the driver's timeout error. */
async function explainFailure(page: Page, action: BrowseAction, error: Error): Promise<string> {
  const selector = 'selector' in action ? action.selector : undefined;
  if (error.name !== 'TimeoutError' || selector === undefined) return firstLine(error.message);
  const count = await page.locator(selector).count().catch(() => 0); // prettier-ignore
  return count === 0
    ? `No element matches ${selector}. Use snapshot or extract to see the page.`
    : `${selector} matches ${count} elements, but none could be used in time: hidden, covered or disabled.`;
}

async function waitForLoad(page: Page): Promise<string> {
  await page.waitForLoadState('domcontentloaded', { timeout: actionMs }).catch(() => {});
  return page.url();
}

async function runAction(
  page: Page,
  action: BrowseAction,
  deps: ActionDeps,
): Promise<ActionOutput> {
  if (action.type === 'navigate') {
    const httpStatus = await deps.browser.visit(page, parseUrl(action.url).href, actionMs);
    return { data: { url: page.url(), httpStatus } };
  }
  if (action.type === 'screenshot') {
    const picture = await deps.browser.picture(page, deps.jobId, { fullPage: action.fullPage });
    deps.onPicture(picture);
    const { bytes, ...file } = picture;
    return { data: { ...file, bytes: bytes.length } };
  }
  if (action.type === 'extract') return limitContent(await contentOf(page, action, deps));
  if (action.type === 'snapshot') return limitContent(await snapshotOf(page));
  return act(page, action);
}

function limitContent(content: string): ActionOutput {
  return content.length > maxContentChars
    ? { content: content.slice(0, maxContentChars), truncated: true }
    : { content };
}

async function act(page: Page, action: PageAction): Promise<ActionOutput> {
  switch (action.type) {
    case 'wait':
      if (action.selector !== undefined)
        await (await locate(page, action.selector)).waitFor({ timeout: action.ms ?? actionMs });
      else await page.waitForTimeout(action.ms ?? 1000);
      return {};
    case 'click':
      await click(page, await locate(page, action.selector));
      return {};
    case 'fill':
      await (await locate(page, action.selector)).fill(action.value);
      return {};
    case 'type':
      if (action.selector === undefined) await page.keyboard.type(action.text);
      else await (await locate(page, action.selector)).pressSequentially(action.text);
      return {};
    case 'select':
      return { data: await (await locate(page, action.selector)).selectOption(action.value) };
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
      return toOutput(await page.evaluate(expressionOf(action.script)));
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

/** Accepts expressions, functions, and bodies with `return` or `await`. */
function expressionOf(script: string): string {
  const text = script.trim().replace(/;$/, '');
  if (/^(?:async\s+)?(?:function\b|\([^()]*\)\s*=>|\w+\s*=>)/.test(text)) return `(${text})()`;
  if (/(?:^|[;{}\n])\s*return\b/.test(text)) return `(async () => { ${script} })()`;
  if (/^await\b/.test(text)) return `(async () => (${text}))()`;
  return script;
}

/** Converts a script's return value to JSON, with the same size limit as other content. */
function toOutput(value: unknown): ActionOutput {
  if (value === undefined) return {};
  const text = JSON.stringify(value, (_key, one: unknown) => (typeof one === 'bigint' ? String(one) : one)) ?? 'null'; // prettier-ignore
  return text.length > maxContentChars
    ? limitContent(typeof value === 'string' ? value : text)
    : { data: JSON.parse(text) as unknown };
}

async function locate(page: Page, selector: string): Promise<Locator> {
  if (!selector.startsWith('ref=')) return page.locator(selector).first();
  const found = page.locator(`aria-ref=${selector.slice(4)}`).first();
  if ((await found.count()) > 0) return found;
  throw new AppError(
    'invalidInput',
    `${selector} does not exist. Refs are valid only for the last snapshot in the same call: run a snapshot action first.`,
  );
}

/** The accessibility tree. An element with [ref=e12] can be selected with ref=e12. */
async function snapshotOf(page: Page): Promise<string> {
  return page.locator('body').ariaSnapshot({ mode: 'ai' });
}

async function contentOf(
  page: Page,
  { selector: part, format }: Extract<BrowseAction, { type: 'extract' }>,
  { reader }: ActionDeps,
): Promise<string> {
  const place = part === undefined ? undefined : await locate(page, part);
  if (format === 'text' && place) {
    const text = await place.innerText();
    // Elements with shadow roots have no inner text of their own.
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
