// browse: a list of actions on one page, each with its own result. A failed wait ends the list, because what follows
// relied on it; other failures are told and the rest goes on.
import type { Page } from 'playwright-core';
import { z } from 'zod';
import { AppError } from '../../../errors.ts';
import type { Reader } from '../fetch/reader.ts';
import type { Browser, Picture } from './browser.ts';

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

export interface ActionResult {
  action: string;
  success: boolean;
  data?: unknown;
  content?: string;
  /** The content was longer. */
  truncated?: true;
  error?: string;
}

type Answer = Pick<ActionResult, 'data' | 'content' | 'truncated'>;

export interface ActionNeeds {
  browser: Browser;
  reader: Reader;
  jobId: string;
  onPicture(picture: Picture): void;
}

export async function runActions(
  page: Page,
  actions: readonly BrowseAction[],
  needs: ActionNeeds,
): Promise<ActionResult[]> {
  return inOrder(page, actions, (action) => runAction(page, action, needs));
}

/** What is done to a page before it is read; what failed is said in a line. */
export async function prepare(
  page: Page,
  actions: readonly PageAction[],
): Promise<string | undefined> {
  const results = await inOrder(page, actions, (action) => act(page, action));
  const failed = results.filter(({ success }) => !success);
  return failed.map(({ action, error }) => `${action} failed: ${error}`).join('; ') || undefined;
}

async function inOrder<A extends BrowseAction>(
  page: Page,
  actions: readonly A[],
  run: (action: A) => Promise<Answer>,
): Promise<ActionResult[]> {
  const results: ActionResult[] = [];
  page.setDefaultTimeout(actionMs);
  for (const action of actions) {
    try {
      const answer = await run(action);
      results.push({ action: action.type, success: true, ...answer });
    } catch (error) {
      if (error instanceof AppError && error.code === 'unavailable') throw error;
      if (/has been closed|crashed/i.test((error as Error).message)) throw error;
      const message = (error as Error).message.split('\n')[0]!.slice(0, 300);
      results.push({ action: action.type, success: false, error: message });
      if (action.type === 'wait') break;
    }
  }
  return results;
}

async function runAction(page: Page, action: BrowseAction, needs: ActionNeeds): Promise<Answer> {
  if (action.type === 'navigate') {
    await needs.browser.visit(page, action.url, actionMs);
    return { data: { url: page.url() } };
  }
  if (action.type === 'screenshot') {
    const picture = await needs.browser.picture(page, needs.jobId, { fullPage: action.fullPage });
    needs.onPicture(picture);
    const { path, width, height, mimeType } = picture;
    return { data: { path, width, height, mimeType, bytes: picture.bytes.length } };
  }
  if (action.type === 'extract') return cut(await contentOf(page, action, needs));
  if (action.type === 'snapshot') return cut(await snapshotOf(page));
  return act(page, action);
}

const cut = (content: string): Answer =>
  content.length > contentCharsMax
    ? { content: content.slice(0, contentCharsMax), truncated: true }
    : { content };

async function act(page: Page, action: PageAction): Promise<Answer> {
  const at = (text: string) =>
    page.locator(text.startsWith('ref=') ? `aria-ref=${text.slice(4)}` : text).first();
  switch (action.type) {
    case 'wait':
      if (action.selector !== undefined)
        await at(action.selector).waitFor({ timeout: action.ms ?? actionMs });
      else await page.waitForTimeout(action.ms ?? 1000);
      return {};
    case 'click':
      await at(action.selector).click();
      await page.waitForLoadState('domcontentloaded').catch(() => {});
      return {};
    case 'fill':
      await at(action.selector).fill(action.value);
      return {};
    case 'type':
      if (action.selector !== undefined) await at(action.selector).pressSequentially(action.text);
      else await page.keyboard.type(action.text);
      return {};
    case 'select':
      return { data: await at(action.selector).selectOption(action.value) };
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
      return { data: await page.evaluate(action.script) };
  }
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
  const place = part === undefined ? undefined : page.locator(part).first();
  if (format === 'text') return (place ?? page.locator('body')).innerText();
  const html = place ? await place.evaluate('(node) => node.outerHTML') : await page.content();
  if (format === 'html') return String(html);
  const read = await reader.read(String(html), {
    url: page.url(),
    contentType: 'text/html',
    formats: ['markdown'],
    onlyMainContent: part === undefined,
  });
  return read.markdown ?? '';
}
