// What needs a browser: screenshot and browse, with the pictures beside the answer.
import type { DialectCall } from '../../dialect.ts';
import { given, notUsed, number, pending, run, timed, type Api, type Fields } from './api.ts';

export interface Image {
  data: string;
  mimeType: string;
}

export async function screenshot(
  call: DialectCall,
  input: Fields,
): Promise<Fields & { image?: Image }> {
  const wish = given({
    url: input.url,
    fullPage: input.full_page,
    format: input.format,
    quality: number(input.quality),
    width: number(input.width),
    height: number(input.height),
    timeoutMs: number(input.timeout_ms),
  });
  const { out, response_time_ms } = await timed(call, 'take_screenshot', wish);
  if (out.status !== 'completed') return pending(out);
  const { images: [image] = [] } = picturesOf(call, 'take_screenshot', out);
  return {
    url: out.url,
    format: String(out.mimeType).replace('image/', ''),
    path: out.path,
    width: out.width,
    height: out.height,
    meta: { cached: false, response_time_ms, credits_used: out.creditsUsed, bytes: out.bytes },
    ...(image ? { image } : {}),
  };
}

function picturesOf(call: DialectCall, name: string, out: Fields): { images?: Image[] } {
  const found = call.operations.find(name)?.content?.(out) ?? [];
  return found.length > 0
    ? { images: found.map(({ data, mimeType }) => ({ data, mimeType })) }
    : {};
}

export const browse: Api = async (call, input) => {
  const actions = ((input.actions ?? []) as Fields[]).map(actionOf);
  const timeoutMs = number(input.timeout_ms);
  const out = await run(call, 'browse_page', given({ url: input.url, actions, timeoutMs }));
  if (out.status !== 'completed') return pending(out);
  const { success, url, results, finalUrl, creditsUsed } = out;
  const images = picturesOf(call, 'browse_page', out);
  const done = { success, url, results, final_url: finalUrl, credits_used: creditsUsed, ...images };
  return { ...done, ...notUsed(input, 'wait_for', 'proxy') };
};

/** Its clients name the same things in several ways. */
function actionOf(action: Fields): Fields {
  const type = String(action.type ?? action.action ?? '');
  const text = action.value ?? action.text;
  const byType: Record<string, Fields> = {
    navigate: { url: action.url },
    wait: {
      selector: action.selector,
      ms: number(action.ms ?? action.milliseconds ?? action.timeout),
    },
    click: { selector: action.selector },
    fill: { selector: action.selector, value: text },
    type: { selector: action.selector, text },
    select: { selector: action.selector, value: text },
    scroll: { direction: action.direction, amount: number(action.amount ?? action.pixels) },
    press: { key: action.key ?? text },
    screenshot: { fullPage: action.full_page },
    extract: { selector: action.selector, format: action.format },
    evaluate: { script: action.script ?? action.expression ?? action.code },
  };
  return given({ type, ...(byType[type] ?? action) });
}
