// The worker thread of PagePool. It reports that it is ready; then each message produces one page, check or
// error.
import { parentPort } from 'node:worker_threads';
import { AppError, errorBody } from '../../../errors.ts';
import { nextTurn } from '../../../runtime/clock.ts';
import { exposeGc } from '../../../runtime/idle-memory.ts';
import { extractFrom } from '../extract/extract.ts';
import { checkAgainst } from '../extract/schema.ts';
import { decodeBytes } from './charset.ts';
import { detectKind } from './documents.ts';
import { readPage } from './page.ts';
import type { PageReply, PageTask, Task, ThreadMessage } from './pool.ts';

/**
 * The tree of a page has many times the size of its body. V8 would keep that much heap for the next pages; a
 * collection costs little, because almost all of it is garbage.
 */
const largeBody = 400_000;
let gc: ReturnType<typeof exposeGc> | undefined;

parentPort!.on('message', (message: Task & { id: number }) => void handle(message));
post();

async function handle({ id, ...task }: Task & { id: number }): Promise<void> {
  const isLarge = 'body' in task && task.body.length >= largeBody;
  await perform(task).then(
    (result) => post({ id, result }),
    (error: unknown) => post({ id, error: errorBody(error) }),
  );
  if (!isLarge) return;
  await nextTurn();
  gc ??= exposeGc();
  gc({ type: 'major' });
}

async function perform(task: Task): Promise<PageReply['result']> {
  return 'schema' in task ? checkAgainst(task.schema, task.value) : read(task);
}

async function read({ body, options, extraction }: PageTask): Promise<PageReply['result']> {
  if (!extraction) return await readPage(body, options);
  const kind = detectKind(body, options.contentType);
  if (kind !== 'html') {
    throw new AppError(
      'unsupported',
      `${options.url} is ${kind}; a schema can be filled only from HTML.`,
      {
        hint: 'Read it as markdown and use a model to fill the schema.',
      },
    );
  }
  const html = typeof body === 'string' ? body : decodeBytes(body, options.contentType).text;
  return extractFrom(html, options.url, extraction);
}

function post(reply?: PageReply): void {
  const { user, system } = process.threadCpuUsage();
  const message: ThreadMessage = { cpuMs: (user + system) / 1000, ...(reply ? { reply } : {}) };
  parentPort!.postMessage(message);
}
