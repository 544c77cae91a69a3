// A scrape with actions. The browser performs the actions, then the page is read.
import { browsePage } from '../../kinds/web/contracts.ts';
import { ownValue } from '../../runtime/by-name.ts';
import { AppError } from '../../errors.ts';
import type { Asked } from './route.ts';
import { unusedOf } from './options.ts';
import { finished, limitOf } from './wait.ts';
import { pictureAt } from './pictures.ts';
import {
  documentOf,
  given,
  noteOf,
  timeoutOf,
  type Fields,
  type RequestedFormats,
} from './translate.ts';

interface Outcome {
  action: string;
  success: boolean;
  data?: unknown;
  content?: string;
  truncated?: boolean;
  error?: string;
}

interface Browsed extends Fields {
  status: string;
  results: Outcome[];
  finalUrl: string;
  title?: string;
}

const linksScript = '[...document.links].map((link) => link.href)';
const imagesScript = '[...document.images].map((image) => image.src)';

const answering = new Set(['screenshot', 'extract']);
const contentActions = new Set(['screenshot', 'scrape', 'executeJavascript']);

/** The action returns a result in addition to the page. */
export const returnsContent = ({ type }: Fields): boolean => contentActions.has(String(type));
const maxWaitMs = 30_000;
const browseMs = 90_000;

/** Actions before a page is read, for calls that return only the page: crawls, batches, `waitFor`. */
export function preparationOf(options: Fields): Fields {
  const wanted = ((options.actions as Fields[] | undefined) ?? []).map(actionOf);
  const unsupported = wanted.find(({ type }) => answering.has(String(type)));
  if (unsupported) {
    throw new AppError('unsupported', 'Pages of a crawl or batch answer no actions of their own.', {
      hint: 'Ask for the format screenshot or rawHtml instead, or scrape the page alone.',
    });
  }
  const actions = [...waitOf(options), ...wanted];
  return actions.length > 0 ? { actions } : {};
}

function waitOf({ waitFor }: Fields): Fields[] {
  const isWait = typeof waitFor === 'number' && waitFor > 0;
  return isWait ? [{ type: 'wait', ms: Math.min(waitFor, maxWaitMs) }] : [];
}

export async function actedOn(
  asked: Asked,
  options: Fields,
  requested: RequestedFormats,
): Promise<Fields> {
  const theirs = (options.actions ?? []) as Fields[];
  const wait = waitOf(options);
  const reads = readsOf(options, requested);
  const actions = [...wait, ...theirs.map(actionOf), ...reads.map(({ action }) => action)];
  const { width, height } = requested.screenshot?.viewport ?? {};
  const how = given({ width, height, timeoutMs: timeoutOf(options, 120_000) });
  const asking = { url: options.url, actions, ...how };
  const out = (await finished(asked, browsePage, asking, limitOf(options, browseMs))) as Browsed;
  const failed = out.results.find(({ success }) => !success);
  if (failed) throw failedAction(`${failed.action} failed: ${failed.error ?? ''}`, out.id);
  const pictureOf = ({ data }: Outcome) =>
    pictureAt(asked, String(out.id), String((data as Fields).path));
  const own = (type: string) =>
    out.results.slice(wait.length).filter((_, i) => theirs[i]?.type === type);
  const { title, httpStatus: status, creditsUsed } = out;
  const page: Fields = { url: options.url, title, status, creditsUsed };
  const last = out.results.slice(wait.length + theirs.length);
  for (const [i, { field }] of reads.entries()) {
    const one = last[i]!;
    page[field] = field === 'screenshot' ? await pictureOf(one) : (one.content ?? one.data);
  }
  const document = documentOf(page);
  return {
    ...document,
    metadata: { ...(document.metadata as Fields), url: out.finalUrl, scrapeId: out.id },
    actions: {
      screenshots: await Promise.all(own('screenshot').map(pictureOf)),
      scrapes: own('scrape').map(({ content }) => ({ url: out.finalUrl, html: content })),
      javascriptReturns: own('executeJavascript').map(({ data }) => ({
        type: typeof data,
        value: data,
      })),
      pdfs: [],
    },
    ...noteOf(
      {
        unknown: [
          ...requested.unknown,
          ...(requested.json ? ['json after actions that answer'] : []),
        ],
        unused: [
          ...unusedOf(options, 'reading'),
          ...besideActions.filter((name) => options[name] !== undefined),
        ],
      },
      out.results.some(({ truncated }) => truncated) ? 'The page is too long, and cut.' : undefined,
    ),
  };
}

/** Options that have no effect together with actions. */
const besideActions = ['headers', 'includeTags', 'excludeTags', 'maxAge'];

export const failedAction = (what: string, jobId: unknown): AppError =>
  new AppError('wrongState', `An action could not be done: ${what}`, {
    hint: 'Check its selector; browse_page with a snapshot shows what is on the page.',
    data: { jobId },
  });

/** Firecrawl's names and ours. */
function actionOf(action: Fields): Fields {
  const type = String(action.type);
  switch (type) {
    case 'wait':
      return given({ type, selector: action.selector, ms: action.milliseconds });
    case 'click':
      return action.all === true
        ? {
            type: 'evaluate',
            script: `document.querySelectorAll(${JSON.stringify(action.selector)}).forEach((one) => one.click())`,
          }
        : given({ type, selector: action.selector });
    case 'write':
      return { type: 'type', text: action.text };
    case 'press':
      return { type, key: action.key };
    case 'scroll':
      return given({ type, direction: action.direction });
    case 'screenshot':
      return given({ type, fullPage: action.fullPage });
    case 'scrape':
      return { type: 'extract', format: 'html' };
    case 'executeJavascript':
      return { type: 'evaluate', script: action.script };
    default:
      throw new AppError('unsupported', `The action ${type} is not available here.`, {
        hint: 'wait, click, write, press, scroll, screenshot, scrape and executeJavascript are.',
      });
  }
}

/** How each requested format is read from the page at the end. */
function readsOf(
  options: Fields,
  requested: RequestedFormats,
): { field: string; action: Fields }[] {
  const whole = options.onlyMainContent === false ? { selector: 'body' } : {};
  const ways: Record<string, Fields> = {
    markdown: { type: 'extract', format: 'markdown', ...whole },
    html: { type: 'extract', format: 'html', selector: 'body' },
    raw: { type: 'extract', format: 'html' },
    links: { type: 'evaluate', script: linksScript },
    images: { type: 'evaluate', script: imagesScript },
  };
  const reads = [...new Set(requested.formats)].map((field) => ({
    field,
    action: ownValue(ways, field)!,
  }));
  if (!requested.screenshot) return reads;
  const { fullPage } = requested.screenshot;
  return [...reads, { field: 'screenshot', action: { type: 'screenshot', fullPage } }];
}
