// Operations on the server itself: describe it, stop it, back up its store.
import { statSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { AppError } from './errors.ts';
import { defineOperation, type Operation } from './operation.ts';
import type { CopiedFiles } from './output-copy.ts';
import { backupStore, stopServer } from './contracts/server.ts';

interface ServerParts {
  describe(): Promise<ServerDescription>;
  /** True if no work is pending. */
  idle(): Promise<boolean>;
  /** Starts stopping. Running calls finish first. */
  stop(): void;
  backup(path: string): Promise<void>;
  /** Copies job files next to a backup. */
  saveOutput(path: string): Promise<CopiedFiles>;
}

const description = z.object({
  version: z.string(),
  home: z.string(),
  url: z.string().optional().describe('HTTP address, once a port is open'),
  bridge: z.array(z.string()).describe('The command that an MCP client starts'),
  bridges: z.number().describe('MCP clients that are connected through a bridge'),
  disk: z.object({
    freeBytes: z.number(),
    totalBytes: z.number(),
    databaseBytes: z.number(),
  }),
  retention: z.object({ maxAgeMs: z.number(), maxCount: z.number(), maxBytes: z.number() }),
});
type ServerDescription = z.infer<typeof description>;

export function serverOperations(server: ServerParts): Operation[] {
  return [
    defineOperation({
      name: 'get_server',
      title: 'Get server',
      description:
        'Describes this server: version, home, address, free disk space, retention limits, and how many MCP clients are connected. Use it to check that a client connected, or why old jobs are deleted. For its settings use `errand config show`; for its nodes list_nodes. Changes nothing.',
      effect: 'read',
      scope: 'admin',
      reach: 'everything',
      input: z.object({}),
      output: description,
      http: { method: 'GET', path: '/api/server' },
      run: () => server.describe(),
    }),
    defineOperation({
      ...stopServer,
      title: 'Stop server',
      description:
        'Stops this server after running calls have finished. Commands keep running, and the next server adopts them and continues other work. Newer bridges use it to replace an idle server (ifIdle), and `errand serve` uses it to take over. Not for agents.',
      effect: 'destroy',
      scope: 'admin',
      reach: 'everything',
      run: async ({ ifIdle }) => {
        const stopping = !ifIdle || (await server.idle());
        if (stopping) server.stop();
        return { stopping };
      },
    }),
    defineOperation({
      ...backupStore,
      title: 'Back up',
      description:
        'Writes a consistent copy of the database to a file while the server runs (SQLite; for PostgreSQL use pg_dump). Use it before an upgrade; `errand restore` restores it. With withOutput it also copies the output files of jobs to the folder <path>.files. A backup never contains settings, keys or secrets.',
      effect: 'write',
      scope: 'admin',
      reach: 'everything',
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

/** Resolves a relative path in the caller's folder. Over HTTP that folder is unknown. */
function absolute(path: string, cwd: string | undefined): string {
  if (isAbsolute(path)) return path;
  if (cwd !== undefined) return resolve(cwd, path);
  throw new AppError('invalidInput', `${path} is a relative path.`, {
    hint: 'Use an absolute path on the machine of the server.',
  });
}
