// The machine that `errand doctor` examines: platform, user and files. Tests replace the root folder. Also the type of a
// doctor finding.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';

export interface Finding {
  name: string;
  state: 'ok' | 'note' | 'problem';
  text: string;
  hint?: string;
}

export interface Machine {
  platform: string;
  env: Record<string, string | undefined>;
  userHome: string;
  userName: string;
  isRoot: boolean;
  /** Where a path of the machine is on this system. */
  at(path: string): string;
  has(path: string): boolean;
  /** Undefined if the file does not exist or is not readable. */
  read(path: string): string | undefined;
  list(path: string): string[];
}

export function thisMachine(env: Machine['env'], root = '/'): Machine {
  const at = (path: string) => join(root, path);
  const tryOr = <T>(read: () => T, fallback: T): T => {
    try {
      return read();
    } catch {
      return fallback;
    }
  };
  return {
    platform: process.platform,
    env,
    userHome: env.HOME ?? homedir(),
    userName: tryOr(() => userInfo().username, ''),
    isRoot: process.getuid?.() === 0,
    at,
    has: (path) => existsSync(at(path)),
    read: (path) => tryOr(() => readFileSync(at(path), 'utf8'), undefined),
    list: (path) => tryOr(() => readdirSync(at(path)), []),
  };
}
