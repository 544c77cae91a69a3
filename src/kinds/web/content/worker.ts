// The thread behind PagePool: one message in, one page or error out.
import { parentPort } from 'node:worker_threads';
import { errorBody } from '../../../errors.ts';
import { readPage } from './page.ts';
import type { PageReply, PageTask } from './pool.ts';

parentPort!.on('message', ({ id, body, options }: PageTask & { id: number }) => {
  readPage(body, options).then(
    (page) => reply({ id, page }),
    (error: unknown) => reply({ id, error: errorBody(error) }),
  );
});

function reply(message: PageReply): void {
  parentPort!.postMessage(message);
}
