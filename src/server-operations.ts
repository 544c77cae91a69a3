// Operations of the server itself: its end, and a copy of its store.
import { statSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { AppError } from './errors.ts';
import { defineOperation, type Operation } from './operation.ts';
import type { CopiedFiles } from './output-copy.ts';

export interface ServerParts {
  /** Nothing is due, ever. */
  idle(): Promise<boolean>;
  /** Begins to stop; calls under way are answered first. */
  stop(): void;
  backup(path: string): Promise<void>;
  /** Copies the files of jobs beside a backup. */
  saveOutput(path: string): Promise<CopiedFiles>;
}

export function serverOperations(server: ServerParts): Operation[] {
  return [
    defineOperation({
      name: 'stop_server',
      title: 'Stop server',
      description:
        'Stops this server after the calls under way. Commands go on and are adopted by the next server; other work is continued then. Used by newer fronts to replace an idle server (ifIdle) and by `errand serve` to take over; not for agents.',
      effect: 'destroy',
      scope: 'admin',
      reach: 'everything',
      input: z.object({ ifIdle: z.boolean().optional() }),
      output: z.object({ stopping: z.boolean() }),
      cli: {
        words: ['stop'],
        summary: 'stop the server; commands go on',
        about:
          'Stops the server after the calls under way. Commands go on; the next server adopts them.',
        text: (output) =>
          (output as { stopping: boolean }).stopping
            ? 'the server is stopping'
            : 'the server has work to do and was not stopped',
      },
      run: async ({ ifIdle }) => {
        const stopping = !ifIdle || (await server.idle());
        if (stopping) server.stop();
        return { stopping };
      },
    }),
    defineOperation({
      name: 'backup_store',
      title: 'Back up',
      description:
        'Writes a consistent copy of the database to a file while the server works (SQLite; for PostgreSQL use pg_dump). Use it before an upgrade; `errand restore` puts it back. With withOutput the output files of jobs are copied to the folder <path>.files next to it; without it only the database is copied. Settings, keys and secrets of the home are never part of it.',
      effect: 'write',
      scope: 'admin',
      reach: 'everything',
      input: z.object({
        path: z.string().min(1).max(4000).describe('Absolute path of the file'),
        withOutput: z.boolean().optional().describe('Also copy what jobs printed'),
      }),
      output: z.object({
        path: z.string(),
        bytes: z.number(),
        outputFiles: z.number().optional(),
        outputBytes: z.number().optional(),
      }),
      http: { method: 'POST', path: '/api/backup' },
      run: async ({ path, withOutput }, { origin }) => {
        const file = absolute(path, origin?.cwd);
        await server.backup(file);
        const saved = { path: file, bytes: statSync(file).size };
        if (!withOutput) return saved;
        const { files, bytes } = await server.saveOutput(file);
        return { ...saved, outputFiles: files, outputBytes: bytes };
      },
    }),
  ];
}

/** A relative path is one of the caller's folder. Over HTTP that folder is not known, and ours is not meant. */
function absolute(path: string, cwd: string | undefined): string {
  if (isAbsolute(path)) return path;
  if (cwd !== undefined) return resolve(cwd, path);
  throw new AppError('invalidInput', `${path} is a relative path.`, {
    hint: 'Name an absolute path on the machine of the server.',
  });
}
