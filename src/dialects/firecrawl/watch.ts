// A crawl or batch followed over a WebSocket: what there is so far, then each document. The end closes the connection;
// the clients then ask for the whole once more, by HTTP.
import { AppError } from '../../errors.ts';
import { lookAt } from './crawl.ts';
import type { Asked } from './index.ts';
import type { Fields } from './translate.ts';

const waitMs = 1000;

export async function* watch(asked: Asked): AsyncIterable<Fields> {
  try {
    yield* followed(asked);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    yield { type: 'error', error: error.message };
  }
}

async function* followed(asked: Asked): AsyncIterable<Fields> {
  const { call, params } = asked;
  let { query } = asked;
  for (let first = true; !call.context.signal.aborted; first = false) {
    const { answer: present, skip } = await lookAt({ ...asked, query });
    const data = present.data as Fields[];
    const goesOn = present.status === 'scraping';
    if (first) {
      // A final status ends the clients' watch with what it holds, and that may be the first pages only.
      if (!goesOn) return;
      yield { type: 'catchup', data: present };
    } else for (const document of data) yield { type: 'document', data: document };
    const { next } = present;
    if (!goesOn && typeof next !== 'string') return;
    query = typeof next === 'string' ? new URL(next).searchParams : new URLSearchParams({ skip });
    if (data.length > 0) continue;
    const wish = { ids: [params.id], timeoutMs: waitMs };
    await call.operations.call('wait_for_jobs', wish, call.context);
  }
}
