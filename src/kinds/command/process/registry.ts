// The attempts that run now, one small file each, for the guard: it enforces their limits while no server does.
// Format: one line, words separated by blanks, read by sh: deadline (epoch seconds, 0 = none), bytes (0 = none),
// mode (cap or ring; +n: to be ended after n seconds without a server), registered (epoch seconds), then the folder and the attempt's id.
import { mkdirSync, readdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { textOf } from './folder.ts';

export interface Registered {
  attemptId: string;
  folder: string;
  /** Wall time; a suspend moves it (see `gaps`). */
  deadlineAt: number | null;
  outputBytesMax: number | null;
  ring: boolean;
  /** Without a server for longer, another node may run it. */
  aloneMsMax: number | null;
  registeredAt: number;
}

export class Registry {
  readonly path: string;

  constructor(commandsFolder: string) {
    this.path = join(commandsFolder, 'running');
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
  }

  add(entry: Registered): void {
    const seconds = (ms: number | null) => (ms === null ? 0 : Math.ceil(ms / 1000));
    const words = [
      seconds(entry.deadlineAt),
      entry.outputBytesMax ?? 0,
      (entry.ring ? 'ring' : 'cap') +
        (entry.aloneMsMax === null ? '' : `+${Math.ceil(entry.aloneMsMax / 1000)}`),
      seconds(entry.registeredAt),
      entry.attemptId,
      entry.folder,
    ];
    writeFileSync(this.file(entry.attemptId), `${words.join(' ')}\n`, { mode: 0o600 });
  }

  remove(attemptId: string): void {
    try {
      unlinkSync(this.file(attemptId));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }

  list(): Registered[] {
    return readdirSync(this.path).flatMap((name) => {
      const text = textOf(join(this.path, name));
      const match = /^(\d+) (\d+) (cap|ring)(?:\+(\d+))? (\d+) (\S+) (.+)\n$/.exec(text ?? '');
      if (!match) return [];
      const [, deadline, bytes, mode, alone, registered, attemptId, folder] = match;
      return {
        attemptId: attemptId!,
        folder: folder!,
        deadlineAt: Number(deadline) ? Number(deadline) * 1000 : null,
        outputBytesMax: Number(bytes) || null,
        ring: mode === 'ring',
        aloneMsMax: alone === undefined ? null : Number(alone) * 1000,
        registeredAt: Number(registered) * 1000,
      };
    });
  }

  private file(attemptId: string): string {
    return join(this.path, attemptId);
  }
}
