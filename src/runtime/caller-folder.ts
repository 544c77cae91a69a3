// The folder from which a call was made. Like its trace, it is carried implicitly into the jobs that the call starts.
import { AsyncLocalStorage } from 'node:async_hooks';

const current = new AsyncLocalStorage<string>();

export const callerFolder = (): string | undefined => current.getStore();

export const withCallerFolder = <T>(folder: string | undefined, run: () => T): T =>
  folder === undefined ? run() : current.run(folder, run);
