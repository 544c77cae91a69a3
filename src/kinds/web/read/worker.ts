// The worker thread of PagePool: one page, extraction or check per task.
import { AppError } from '../../../errors.ts';
import { nextTurn } from '../../../runtime/clock.ts';
import { exposeGc } from '../../../runtime/idle-memory.ts';
import { runTasks } from '../../../runtime/thread.ts';
import { extractFrom, type Extraction } from '../extract/extract.ts';
import { checkAgainst, type SchemaCheck } from '../extract/schema.ts';
import { decodeBytes } from './charset.ts';
import { detectKind } from './documents.ts';
import { readPage } from './page.ts';
import type { PageTask, Task } from './pool.ts';
import type { Page } from './types.ts';

/**
 * The tree of a page has many times the size of its body. V8 would keep that much heap for the next pages; a
 * collection costs little, because almost all of it is garbage.
 */
const largeBody = 400_000;
let gc: ReturnType<typeof exposeGc> | undefined;

runTasks(async (task: Task) => {
  try {
    return await perform(task);
  } finally {
    if ('body' in task && task.body.length >= largeBody) void collectGarbage();
  }
});

async function perform(task: Task): Promise<Page | Extraction | SchemaCheck> {
  return 'schema' in task ? checkAgainst(task.schema, task.value) : read(task);
}

async function read({ body, options, extraction }: PageTask): Promise<Page | Extraction> {
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

/** Runs in the next turn, when the result has been sent. */
async function collectGarbage(): Promise<void> {
  await nextTurn();
  gc ??= exposeGc();
  gc({ type: 'major' });
}
