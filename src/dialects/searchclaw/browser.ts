// Calls that need a browser: screenshot and browse. MCP returns images as separate content, HTTP as part of the response.
import { browsePage, readPicture, takeScreenshot } from '../../kinds/web/contracts.ts';
import { basename } from 'node:path';
import { ownValue } from '../../runtime/by-name.ts';
import type { DialectCall } from '../../dialect.ts';
import { given, notUsed, number, pending, run, timed, type Api, type Fields } from './call.ts';

export interface Image {
  data: string;
  mimeType: string;
}

interface Taken extends Fields {
  path: string;
}

export async function screenshot(
  call: DialectCall,
  input: Fields,
): Promise<Fields & { image?: Image }> {
  const options = given({
    url: input.url,
    fullPage: input.full_page,
    format: input.format,
    quality: number(input.quality),
    width: number(input.width),
    height: number(input.height),
    timeoutMs: number(input.timeout_ms),
  });
  const { out, response_time_ms } = await timed(call, takeScreenshot, options);
  if (out.status !== 'completed') return pending(out);
  const { images: [image] = [] } = picturesOf(call, 'take_screenshot', out);
  return {
    url: out.url,
    format: String(out.mimeType).replace('image/', ''),
    path: out.path,
    width: out.width,
    height: out.height,
    meta: {
      cached: false,
      response_time_ms,
      credits_used: out.creditsUsed,
      bytes: out.bytes,
      ...notUsed(input, 'wait_for', 'proxy'),
    },
    job_id: out.id,
    ...(image ? { image } : {}),
  };
}

/** The image of a response, or undefined if the response only says where to get it. */
export async function imageOf(call: DialectCall, shot: Fields): Promise<Image | undefined> {
  if (shot.path === undefined) return undefined;
  const file = basename(String(shot.path));
  return run(call, readPicture, { id: shot.job_id, file });
}

function picturesOf(call: DialectCall, name: string, out: Fields): { images?: Image[] } {
  const found = call.operations.find(name)?.content?.(out) ?? [];
  return found.length > 0
    ? { images: found.map(({ data, mimeType }) => ({ data, mimeType })) }
    : {};
}

export const browse: Api = async (call, input) => {
  const asked = (input.actions ?? []) as Fields[];
  const { width, height } = (input.viewport ?? {}) as Fields;
  const options = {
    url: input.url,
    actions: asked.map(actionOf),
    timeoutMs: number(input.timeout ?? input.timeout_ms),
    width: number(width),
    height: number(height),
  };
  const { out } = await timed(call, browsePage, given(options));
  if (out.status !== 'completed') return pending(out);
  const { success, url, results, finalUrl, creditsUsed, id } = out;
  const images = picturesOf(call, 'browse_page', out);
  const done = { success, url, results, final_url: finalUrl, credits_used: creditsUsed, ...images };
  const part = asked.some(({ type, selector }) => type === 'screenshot' && selector !== undefined);
  const unsupported = { ...input, 'selector of screenshot': part || undefined };
  const notice = notUsed(unsupported, 'wait_for', 'proxy', 'user_agent', 'selector of screenshot');
  return { ...done, ...notice, job_id: id };
};

/** The HTTP format: each image as base64 in the result of its action. */
export const browseWithPictures: Api = async (call, input) => {
  const { images: _images, ...answer } = await browse(call, input);
  if (!Array.isArray(answer.results)) return answer;
  const results = (answer.results as Fields[]).map(async (one) => {
    if (one.action !== 'screenshot' || one.success !== true) return one;
    const picture = one.data as Taken;
    const image = await imageOf(call, { path: picture.path, job_id: answer.job_id });
    return { ...one, data: image?.data, picture };
  });
  return { ...answer, results: await Promise.all(results) };
};

const maxWaitMs = 30_000;

/** Clients use several names for the same field. */
function actionOf(action: Fields): Fields {
  const type = String(action.type ?? action.action ?? '');
  const text = action.value ?? action.text;
  const ms = number(action.ms ?? action.milliseconds ?? action.timeout);
  const byType: Record<string, Fields> = {
    navigate: { url: action.url },
    wait: {
      selector: action.selector,
      ms: ms === undefined ? undefined : Math.min(ms, maxWaitMs),
    },
    click: { selector: action.selector },
    fill: { selector: action.selector, value: text },
    type: { selector: action.selector, text },
    select: { selector: action.selector, value: text },
    scroll: { direction: action.direction, amount: number(action.amount ?? action.pixels) ?? 500 },
    press: { key: action.key ?? text },
    screenshot: { fullPage: action.full_page },
    extract: { selector: action.selector, format: action.format ?? 'text' },
    evaluate: { script: action.script ?? action.expression ?? action.code },
  };
  return given({ type, ...(ownValue(byType, type) ?? action) });
}
