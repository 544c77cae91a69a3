// What a thread of a ThreadPool does: it reports that it is ready, then each task produces one result or error.
import { parentPort } from 'node:worker_threads';
import { errorBody } from '../errors.ts';
import type { ThreadMessage } from './thread-pool.ts';

export function runTasks<Task>(run: (task: Task) => unknown): void {
  parentPort!.on('message', (task: Task) => void reply(task));
  post();

  async function reply(task: Task): Promise<void> {
    try {
      post({ result: await run(task) });
    } catch (error) {
      post({ error: errorBody(error) });
    }
  }
}

function post(reply?: ThreadMessage['reply']): void {
  const { user, system } = process.threadCpuUsage();
  const message: ThreadMessage = { cpuMs: (user + system) / 1000, ...(reply ? { reply } : {}) };
  parentPort!.postMessage(message);
}
