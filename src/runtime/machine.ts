// The machine as `errand doctor` sees it: which system, whose home, and its files under one root (tests give another);
// and what doctor finds.
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
  has(path: string): boolean;
  /** Undefined when there is no such file, or no right to read it. */
  read(path: string): string | undefined;
  list(path: string): string[];
}

export function thisMachine(env: Machine['env'], root = '/'): Machine {
  const at = (path: string) => join(root, path);
  const or = <T>(work: () => T, otherwise: T): T => {
    try {
      return work();
    } catch {
      return otherwise;
    }
  };
  return {
    platform: process.platform,
    env,
    userHome: env.HOME ?? homedir(),
    userName: or(() => userInfo().username, ''),
    isRoot: process.getuid?.() === 0,
    has: (path) => existsSync(at(path)),
    read: (path) => or(() => readFileSync(at(path), 'utf8'), undefined),
    list: (path) => or(() => readdirSync(at(path)), []),
  };
}
