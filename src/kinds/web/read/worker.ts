// The worker thread of PagePool. It reports that it is ready; then each message produces one page, check or
// error.
import { parentPort } from 'node:worker_threads';
import { AppError, errorBody } from '../../../errors.ts';
import { extractFrom } from '../extract/extract.ts';
import { checkAgainst } from '../extract/schema.ts';
import { decodeBytes } from './charset.ts';
import { detectKind } from './documents.ts';
import { readPage } from './page.ts';
import type { PageReply, PageTask, Task, ThreadMessage } from './pool.ts';

parentPort!.on('message', ({ id, ...task }: Task & { id: number }) => {
  perform(task).then(
    (result) => post({ id, result }),
    (error: unknown) => post({ id, error: errorBody(error) }),
  );
});
post();

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
