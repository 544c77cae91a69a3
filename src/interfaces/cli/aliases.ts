// Command names that people know from other programs.
import { byName } from '../../runtime/by-name.ts';

export const aliases: Readonly<Record<string, string>> = byName({
  ls: 'list',
  ps: 'list',
  jobs: 'list',
  log: 'logs',
  status: 'show',
  kill: 'cancel',
  delete: 'rm',
});
