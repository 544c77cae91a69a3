// Follows a crawl or batch over a WebSocket: the documents so far, then each new one. The end closes the connection, and clients
// then read the complete result over HTTP.
import { AppError } from '../../errors.ts';
import { lookAt } from './status.ts';
import type { Asked } from './route.ts';
import type { Fields } from './translate.ts';
import { waitForJobs } from '../../contracts/jobs.ts';

const waitMs = 1000;

export async function* watch(asked: Asked): AsyncGenerator<Fields, string | void> {
  try {
    yield* followed(asked);
    if (asked.toEnd) return JSON.stringify({ type: 'done' });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    yield { type: 'error', error: error.message };
  }
}

async function* followed(asked: Asked): AsyncGenerator<Fields, void> {
  const { call, params } = asked;
  let { query } = asked;
  for (let first = true; !call.context.signal.aborted; first = false) {
    const { answer: present, skip } = await lookAt({ ...asked, query });
    const data = present.data as Fields[];
    const goesOn = present.status === 'scraping';
    if (first) {
      // A final status ends a v2 watch with the documents it contains, which may be only the first ones.
      if (!goesOn && !asked.toEnd) return;
      yield { type: 'catchup', data: present };
    } else for (const document of data) yield { type: 'document', data: document };
    const { next } = present;
    if (!goesOn && typeof next !== 'string') return;
    query = typeof next === 'string' ? new URL(next).searchParams : new URLSearchParams({ skip });
    if (data.length > 0) continue;
    const requested = { ids: [params.id!], waitMs };
    await call.operations.call(waitForJobs, requested, call.context);
  }
}
